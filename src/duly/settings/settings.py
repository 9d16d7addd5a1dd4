"""The settings: their names, kinds, defaults and descriptions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from duly.durations import LONGEST, SHORTEST
from duly.errors import InvalidValue
from duly.settings.kinds import (
    AppTarget,
    Header,
    HostName,
    Kind,
    Length,
    Modules,
    Names,
    Networks,
    Number,
    OneOf,
    SchedulesFile,
    StoreAddress,
    Switch,
    TokenFile,
    Words,
    ZoneName,
    refusal,
)
from duly.settings.tables import AlertSettings, AlertTable, TargetSettings, TargetTable

DEFAULT: Final = "default"  # the origin of a setting that was not set
_KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting: its name in Python and in files, its flag and its environment variables."""

    name: str
    kind: Kind[Any]
    default: object
    about: str
    flag: str
    variables: tuple[str, ...]


@cache
def keys() -> Mapping[str, Key]:
    """Return all settings by name, in the order of the documentation."""
    return {
        one.name: _key(one.name, one.default, **one.metadata[_KEY])
        for one in fields(Settings)
        if _KEY in one.metadata
    }


def key_named(name: str) -> Key:
    found = keys().get(name)
    if found is None:
        raise InvalidValue(refusal([name], keys(), place="asked for"))
    return found


def _about(
    about: str, kind: Kind[Any], *, flag: str = "", also: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {_KEY: {"about": about, "kind": kind, "flag": flag, "also": also}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the command and of ``Duly()``.

    ``file`` is the settings file, if there is one. ``folder`` is its folder, or the working folder:
    modules are imported from there, and relative paths in the file start there.
    """

    app: str | None = field(
        default=None,
        metadata=_about("The app: a file, a module, or module:name.", AppTarget(), flag="APP"),
    )
    url: str = field(
        default="duly.db",
        metadata=_about(
            "Database: a SQLite file, sqlite:///path or postgresql://…; for commands also the "
            "https://… address of a duly server.",
            StoreAddress(),
            flag="--store",
            also=("DULY_STORE",),
        ),
        repr=False,
    )
    token_file: str | None = field(
        default=None,
        metadata=_about("File whose first line is the token for a duly server.", TokenFile()),
    )
    zone: str | None = field(
        default=None, metadata=_about("Time zone of rules that name none.", ZoneName())
    )
    imports: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "Modules that declare tasks, imported before anything runs.", Modules("shop.tasks")
        ),
    )
    schedules_file: str | None = field(
        default=None,
        metadata=_about("File that declares schedules, queues and limits.", SchedulesFile()),
    )
    queues: tuple[str, ...] = field(
        default=("default",),
        metadata=_about("Queues that the worker takes jobs from.", Names("default", least=1)),
    )
    concurrency: int = field(
        default=10,
        metadata=_about("Jobs that run at once in each worker process.", Number(1, 10_000)),
    )
    processes: int = field(default=1, metadata=_about("Worker processes to start.", Number(1, 256)))
    lease: timedelta = field(
        default=timedelta(seconds=15),
        metadata=_about(
            "Lease: after so long without a heartbeat, a worker's jobs go to other workers.",
            Length(timedelta(seconds=2), timedelta(minutes=10)),
        ),
    )
    stop_timeout: timedelta = field(
        # Kubernetes kills after 30 s; so stopped jobs have five seconds to clean up.
        default=timedelta(seconds=25),
        metadata=_about(
            "How long running jobs may finish after the first signal, before they are stopped.",
            Length(timedelta(0), LONGEST),
        ),
    )
    host: str = field(
        default="127.0.0.1",
        metadata=_about("Address that the web server listens on.", HostName()),
    )
    port: int = field(
        default=8400,
        metadata=_about(
            "Port that the web server listens on; 0 is any free port.", Number(0, 65_535)
        ),
    )
    web: bool = field(
        default=True,
        metadata=_about("Also start the dashboard, in duly up and dev.", Switch(), flag="--web"),
    )
    hosts: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "Host names that the web server accepts, besides the local ones.",
            Names("duly.example.com"),
        ),
    )
    trust_header: str | None = field(
        default=None,
        metadata=_about("Header in which a proxy names the user, as X-Forwarded-User.", Header()),
    )
    trust_networks: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "Trusted proxies, as 10.0.0.2/32, for X-Forwarded-For, X-Forwarded-Proto and the "
            "trust_header.",
            Networks("10.0.0.2/32"),
        ),
    )
    trust_role: str = field(
        default="viewer",
        metadata=_about(
            "Role of users whom a proxy names.", OneOf(("viewer", "operator", "admin"))
        ),
    )
    allow: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "Built-in tasks that may run: shell (and commands), http, send.",
            Words("shell", words=("shell", "http", "send")),
        ),
    )
    allow_networks: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "Private networks that the http task may reach, as 10.0.0.0/8.", Networks("10.0.0.0/8")
        ),
    )
    allow_signing: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "Environment variables that the http task may sign requests with (sign=).",
            Names("HOOK_SECRET"),
        ),
    )
    keep_history: timedelta = field(
        default=timedelta(days=14),
        metadata=_about("How long finished jobs are kept.", Length(SHORTEST, LONGEST)),
    )
    keep_failed: timedelta = field(
        default=timedelta(days=30),
        metadata=_about("How long failed jobs are kept.", Length(SHORTEST, LONGEST)),
    )
    keep_fires: timedelta = field(
        default=timedelta(days=90),
        metadata=_about(
            "How long the history of scheduled runs is kept.", Length(SHORTEST, LONGEST)
        ),
    )
    alerts: AlertSettings | None = field(
        default=None,
        metadata=_about(
            "Alerts: a table of the settings file, or JSON; see alerts.md.", AlertTable()
        ),
        repr=False,
    )
    targets: tuple[TargetSettings, ...] = field(
        default=(),
        metadata=_about(
            "Systems that jobs are handed to: tables of the settings file, or JSON; see "
            "hand-off.md.",
            TargetTable(),
        ),
        repr=False,
    )
    log_level: str = field(
        default="info",
        metadata=_about(
            "Lowest level of messages on stderr: debug, info, warning or error.",
            OneOf(("debug", "info", "warning", "error")),
        ),
    )
    log_format: str = field(
        default="text",
        metadata=_about(
            "Format of messages on stderr: text, or json with one object in each line.",
            OneOf(("text", "json")),
        ),
    )
    verbose: bool = field(default=False, metadata=_about("Print a line for every job.", Switch()))

    file: Path | None = None
    folder: Path = field(default_factory=Path)
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)

    def origin(self, name: str) -> str:
        """Return where a setting comes from: ``--queues``, ``DULY_QUEUES``, ``duly.toml``."""
        return self.origins.get(key_named(name).name, DEFAULT)

    def plain(self, name: str) -> object:
        """Return the value in JSON types, without secrets."""
        value = getattr(self, key_named(name).name)
        return None if value is None else key_named(name).kind.plain(value)

    def shown(self, name: str) -> str:
        """Return the value for display; ``-`` if there is none."""
        match self.plain(name):
            case None | []:
                return "-"
            case bool(value):
                return "true" if value else "false"
            case list(values):
                return ", ".join(values)
            case value:
                return str(value)


def _key(
    name: str, default: object, *, kind: Kind[Any], about: str, flag: str, also: tuple[str, ...]
) -> Key:
    return Key(
        name=name,
        kind=kind,
        default=default,
        about=about,
        flag=flag or f"--{name.replace('_', '-')}",
        variables=(f"DULY_{name.upper()}", *also),
    )
