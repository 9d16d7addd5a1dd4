"""The tables of duly.toml: ``[alerts]`` (what is told, how often, to whom) and ``[targets]``.

A target is a system that jobs are handed to. A text may name environment variables as ``${NAME}``,
so that secrets stay out of the file. They are looked up when the first message is sent: a command
that sends none does not need them.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar

from duly.durations import LONGEST, SECOND
from duly.errors import InvalidValue
from duly.model.alert import KINDS
from duly.model.payload import check_text
from duly.settings.kinds import AppTarget, Kind, Length, Names, Number, OneOf, Words, refusal

T = TypeVar("T")

_VARIABLE = re.compile(r"\$\{(\w+)\}", re.ASCII)
_HOST = re.compile(r"[a-z]+://([^/?#]*)", re.IGNORECASE)
_WAYS: Final = ("webhook", "email", "apprise")


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A receiver of messages: a webhook, addresses of e-mail, or a service behind Apprise."""

    name: str
    way: Literal["webhook", "email", "apprise"]
    url: str = ""  # of the webhook, the SMTP server, or as Apprise writes it
    on: tuple[str, ...] = ()  # kinds of problems; all if empty
    headers: Mapping[str, str] = field(default_factory=dict)
    sign: str = ""  # the environment variable with the secret of the signature
    recipients: tuple[str, ...] = ()
    sender: str = ""
    user: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    name: str = "duly"
    url: str = ""  # of the dashboard, for links
    on: tuple[str, ...] = tuple(KINDS)
    late_after: timedelta = timedelta(minutes=5)
    queue_depth: int | None = None
    queue_age: timedelta | None = None
    group: timedelta = timedelta(seconds=30)
    every: timedelta = timedelta(minutes=5)
    repeat: timedelta = timedelta(hours=4)
    ping: str = ""
    ping_every: timedelta = timedelta(minutes=1)
    pings: Mapping[str, str] = field(default_factory=dict)  # by the names of schedules
    to: tuple[Destination, ...] = ()

    @property
    def is_active(self) -> bool:
        return bool(self.to or self.ping or self.pings)


def filled(text: str) -> str:
    """Replace ``${NAME}`` by the environment variable; ``InvalidValue`` if there is none."""

    def value(found: re.Match[str]) -> str:
        said = os.environ.get(found[1])
        if not said:
            raise InvalidValue(f"the environment variable {found[1]} is not set")
        return said

    return _VARIABLE.sub(value, text)


class Text(Kind[str]):
    def read(self, value: object) -> str:
        if not isinstance(value, str) or not check_text(value, "a text"):
            raise InvalidValue("a text that is not empty")
        return value


@dataclass(frozen=True, slots=True)
class WebAddress(Kind[str]):
    schemes: tuple[str, ...] = ("https", "http")

    def read(self, value: object) -> str:
        there = " or ".join(f"{scheme}://…" for scheme in self.schemes)
        if not isinstance(value, str) or not value.isprintable():
            raise InvalidValue(f"an address, {there}")
        beginning = tuple(f"{scheme}://" for scheme in self.schemes)
        if not value.startswith((*beginning, "${")):
            raise InvalidValue(f"an address begins with {there}, or is in a variable: ${{NAME}}")
        return value


class Texts(Kind[Mapping[str, str]]):
    """A table of texts by name."""

    def read(self, value: object) -> Mapping[str, str]:
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise InvalidValue('a table of texts, as {name = "text"}')
        return dict(value)


_ANY_LENGTH: Final = Length(timedelta(0), LONGEST)
_COMMON: Final[Mapping[str, Kind[Any]]] = {
    "name": Text(),
    "url": WebAddress(),
    "on": Words("failed", words=tuple(KINDS)),
    "late_after": Length(SECOND, LONGEST),
    "queue_depth": Number(1, 1_000_000_000),
    "queue_age": Length(SECOND, LONGEST),
    "group": _ANY_LENGTH,
    "every": _ANY_LENGTH,
    "repeat": Length(SECOND, LONGEST),
    "ping": WebAddress(),
    "ping_every": Length(SECOND, LONGEST),
    "pings": Texts(),
}
_DESTINATION: Final[Mapping[str, Kind[Any]]] = {
    "name": Text(),
    "on": Words("failed", words=tuple(KINDS)),
    "webhook": WebAddress(),
    "headers": Texts(),
    "sign": Text(),
    "email": Names("ops@example.com", least=1),
    "smtp": WebAddress(("smtp", "smtps")),
    "from": Text(),
    "user": Text(),
    "password": Text(),
    "apprise": Text(),
}
_OF_WAY: Final = {
    "webhook": {"name", "on", "webhook", "headers", "sign"},
    "email": {"name", "on", "email", "smtp", "from", "user", "password"},
    "apprise": {"name", "on", "apprise"},
}


class Table(Kind[T]):
    """A whole table; in the environment it is written as JSON."""

    secret = True

    def parse(self, text: str) -> object:
        try:
            found: object = json.loads(text)
        except ValueError:
            return text
        return found


class AlertTable(Table[AlertSettings]):
    def read(self, value: object) -> AlertSettings:
        if isinstance(value, AlertSettings):
            return value
        if not isinstance(value, dict):
            raise InvalidValue('a table, as [alerts] with [[alerts.to]] webhook = "https://…"')
        rest = dict(value)
        given = rest.pop("to", [])
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise InvalidValue("alerts.to is a list of tables: write [[alerts.to]]")
        common = _table_values(rest, _COMMON, "alerts")
        for schedule, address in common.get("pings", {}).items():
            _read(WebAddress(), address, f"alerts.pings.{schedule}")
        found = tuple(_destination(one, number) for number, one in enumerate(given, start=1))
        names = [one.name for one in found]
        for name in names:
            if names.count(name) > 1:
                raise InvalidValue(f'alerts.to: two are called "{name}": give one a name = "…"')
        return AlertSettings(**common, to=found)

    def plain(self, value: AlertSettings) -> object:
        pings = [f"ping of {name}" for name in value.pings]
        return [one.name for one in value.to] + ["ping"] * bool(value.ping) + pings


def _destination(table: dict[str, Any], number: int) -> Destination:
    place = f"alerts.to, number {number}"
    ways = [way for way in _WAYS if way in table]
    if len(ways) != 1:
        raise InvalidValue(
            f'{place}: give one of webhook = "https://…", email = ["…"] and apprise = "slack://…"'
        )
    [way] = ways
    said = _table_values(table, _DESTINATION, place)
    strange = sorted(said.keys() - _OF_WAY[way])
    if strange:
        raise InvalidValue(f"{place}: {strange[0]} is not for {way}")
    common = {
        name: said[name] for name in ("on", "headers", "sign", "user", "password") if name in said
    }
    if way == "webhook":
        name = said.get("name", f"webhook {_host(said['webhook'])}")
        return Destination(name=name, way="webhook", url=said["webhook"], **common)
    if way == "apprise":
        # Of its address only the service: even the host may be a secret.
        name = said.get("name", f"apprise {said['apprise'].partition('://')[0]}")
        return Destination(name=name, way="apprise", url=said["apprise"], **common)
    for needed in ("smtp", "from"):
        if needed not in said:
            raise InvalidValue(f'{place}: e-mail needs {needed} = "…"')
    name = said.get("name", f"email {said['email'][0]}")
    people, sender = said["email"], said["from"]
    return Destination(
        name=name, way="email", url=said["smtp"], recipients=people, sender=sender, **common
    )


def _table_values(
    table: Mapping[str, object], kinds: Mapping[str, Kind[Any]], place: str
) -> dict[str, Any]:
    unknown = [name for name in table if name not in kinds]
    if unknown:
        raise InvalidValue(refusal(unknown, kinds, place=place))
    return {name: _read(kinds[name], value, f"{place}.{name}") for name, value in table.items()}


def _read(kind: Kind[Any], value: object, place: str) -> object:
    try:
        found: object = kind.read(value)
    except InvalidValue as error:
        raise InvalidValue(f"{place}: {error}") from None
    return found


def _host(url: str) -> str:
    """Return the host of an address: a webhook's path is often its secret."""
    found = _HOST.match(url)
    return found[1].rpartition("@")[2] if found else url


TARGET_KINDS: Final = ("celery", "rq", "dramatiq", "redis", "rabbitmq", "nats", "kafka", "webhook")
# Targets that report outcomes; those of another kind do only if their settings say so.
REPORTING: Final = ("celery", "rq", "dramatiq", "webhook")
_FIELDS: Final[Mapping[str, Kind[Any]]] = {
    "kind": OneOf(TARGET_KINDS),
    "url": Text(),
    "app": AppTarget(),
    "queue": Text(),
    "for_queues": Names("mail"),
    "sign": Text(),
    "outcome": OneOf(("report", "none")),
    "outcome_within": Length(timedelta(seconds=1), LONGEST),
}
_OF_KIND: Final = {"app": ("celery",), "queue": ("rq", "dramatiq"), "sign": ("webhook",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """A system that jobs are handed to."""

    name: str
    kind: str
    url: str = ""
    app: str = ""  # the Celery app, in place of a url
    queue: str = ""  # the queue there, if a job names none
    for_queues: tuple[str, ...] = ()  # of duly, whose jobs come here if they name no target
    sign: str = ""  # the environment variable with the secret of a webhook's signature
    reports: bool = True  # whether the outcome will be reported
    # As long as Celery waits before it delivers an unacknowledged message from Redis again.
    outcome_within: timedelta = timedelta(hours=1)

    def __str__(self) -> str:
        """``main (celery)``."""
        return f"{self.name} ({self.kind})"


class TargetTable(Table[tuple[TargetSettings, ...]]):
    def read(self, value: object) -> tuple[TargetSettings, ...]:
        if isinstance(value, tuple):
            return value
        if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
            raise InvalidValue(
                'a table for each, as [targets.main] kind = "celery" url = "redis://…"'
            )
        found = tuple(_target(name, table) for name, table in value.items())
        taken: dict[str, str] = {}
        for one in found:
            for queue in one.for_queues:
                if taken.setdefault(queue, one.name) != one.name:
                    raise InvalidValue(
                        f"targets.{one.name}: the queue {queue} belongs to targets.{taken[queue]}"
                    )
        return found

    def plain(self, value: tuple[TargetSettings, ...]) -> object:
        return [str(target) for target in value]


def _target(name: str, table: Mapping[str, object]) -> TargetSettings:
    place = f"targets.{name}"
    said = _table_values(table, _FIELDS, place)
    kind = said.get("kind")
    if kind is None:
        raise InvalidValue(f"{place}: it needs a kind, one of {', '.join(TARGET_KINDS)}")
    for option, kinds in _OF_KIND.items():
        if option in said and kind not in kinds:
            raise InvalidValue(f"{place}: {option} is for {' and '.join(kinds)}, not for {kind}")
    if bool(said.get("url")) == bool(said.get("app")):
        also = ', or app = "shop.celery:app"' if kind == "celery" else ""
        raise InvalidValue(f'{place}: it needs the address of its server, url = "…"{also}')
    outcome = said.pop("outcome", None)
    reports = kind in REPORTING if outcome is None else outcome == "report"
    return TargetSettings(name=name, reports=reports, **said)
