"""Loading the settings from command-line flags, environment variables and the settings file.

For each setting, a flag wins over the environment, the environment over the file, and the file over
the default. The file is ``duly.toml``, or ``[tool.duly]`` in ``pyproject.toml``. It is searched for
in a folder and then in the folders above; only the nearest file counts.
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duly.errors import InvalidValue
from duly.settings.kinds import AppTarget, Location, refusal
from duly.settings.settings import Key, Settings, key_named, keys

MOST_SHOWN = 60
# Tables of a file of schedules, which are refused in a settings file.
_DECLARED = ("schedules", "limits", "calendars", "defaults")

OWN: Final = "duly.toml"
PROJECT: Final = "pyproject.toml"
PREFIX: Final = "DULY_"
# Variables that duly uses internally; they are no settings. New ones must be listed here.
OTHERS: Final = frozenset({
    "DULY_STORE_OF_COMMAND",  # a command, to the processes that it starts
    "DULY_STARTED_ANEW",
    "DULY_SUPERVISOR",
    "DULY_PARENT",
    "DULY_LAUNCH",
    "DULY_JOB_ID",  # a job, to the program that it runs
    "DULY_DUE_AT",
    "DULY_ATTEMPT",
    "DULY_SCHEDULE",
    "DULY_REQUEST",  # an engine, to the program that it runs
    "DULY_FUZZ",  # the tests of duly itself
    "DULY_MEMBER",
    "DULY_TELL",
    "DULY_WITNESS",
})  # fmt: skip
_OTHERS_BEGIN = ("DULY_TEST_",)
# Kubernetes sets variables for every service: for a service "duly" or "duly-web" these are
# DULY_SERVICE_HOST, DULY_PORT=tcp://10.0.0.1:80, DULY_WEB_PORT_80_TCP_ADDR and so on.
_OF_SERVICE = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINK = re.compile(r"(tcp|udp|sctp)://")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SettingsFile:
    """A settings file, or the settings of a framework, which take the place of the file."""

    path: Path
    values: Mapping[str, object]


_of_framework: SettingsFile | None = None


def use_framework(settings: SettingsFile | None) -> None:
    """Use the settings of a framework, such as Django's, in place of a settings file."""
    global _of_framework  # noqa: PLW0603 - a process has one framework
    _of_framework = settings


def framework() -> SettingsFile | None:
    return _of_framework


def load(flags: Mapping[str, object], environ: Mapping[str, str], folder: Path) -> Settings:
    """Return the settings of a command that is called in ``folder``.

    ``flags`` holds values of flags by the names of settings; None for a flag that was not given.
    """
    said = _Said(
        flags={key_named(name).name: value for name, value in flags.items() if value is not None},
        environ=said_in(environ),
        folder=folder.absolute(),
        file=_known(framework() or nearest(folder)),
    )
    settled = {name: said.settled(key) for name, key in keys().items()}
    return Settings(
        **{name: value for name, (value, _) in settled.items()},  # type: ignore[arg-type]
        file=said.file.path if said.file else None,
        folder=said.base,
        origins={name: origin for name, (_, origin) in settled.items() if origin},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    flags: Mapping[str, object]
    environ: Mapping[str, str]
    folder: Path
    file: SettingsFile | None

    @property
    def base(self) -> Path:
        """The folder for relative locations that come from the file or a default."""
        return self.file.path.parent if self.file else self.folder

    def settled(self, key: Key) -> tuple[object, str]:
        """Return the value of a setting and its origin; the origin of a default is empty."""
        if key.name in self.flags:
            value = self.flags[key.name]
            return self._typed(key, value, f"{key.flag} "), key.flag
        for variable in key.variables:
            if variable in self.environ:
                value = self.environ[variable]
                return self._typed(key, value, f"{variable}="), variable
        if self.file is not None and key.name in self.file.values:
            return self._written(key, self.file), self.file.path.name
        return _seen_from(self.base, key, key.default), ""

    def _typed(self, key: Key, value: object, place: str) -> object:
        asked = key.kind.parse(value) if isinstance(value, str) else value
        found = _read(key, asked, place=place, shown=str(value))
        # The target of an app stays as it was typed.
        return found if isinstance(key.kind, AppTarget) else _seen_from(self.folder, key, found)

    def _written(self, key: Key, file: SettingsFile) -> object:
        value = file.values[key.name]
        place = f"{file.path}: {key.name} = "
        return _seen_from(self.base, key, _read(key, value, place=place, shown=_as_toml(value)))


def _known(file: SettingsFile | None) -> SettingsFile | None:
    """Return the file, or refuse it if it has unknown settings."""
    unknown = [name for name in file.values if name not in keys()] if file else []
    if file is None or not unknown:
        return file
    for name in unknown:
        if name in _DECLARED:
            raise InvalidValue(
                f"{file.path}: [{name}] belongs into a file of its own, which this one names: "
                'schedules_file = "schedules.toml"'
            )
    raise InvalidValue(refusal(unknown, keys(), place=str(file.path)))


def _read(key: Key, value: object, *, place: str, shown: str) -> object:
    try:
        found: object = key.kind.read(value)
    except InvalidValue as error:
        # A message about a secret must not contain it.
        said = place.rstrip(" =") if key.kind.secret else place + _short(shown)
        raise InvalidValue(f"{said}: {error}") from None
    return found


def _seen_from(folder: Path, key: Key, value: object) -> object:
    if isinstance(key.kind, Location) and isinstance(value, str):
        return key.kind.seen_from(value, folder)
    return value


def _as_toml(value: object) -> str:
    import json  # noqa: PLC0415 - for a message

    return json.dumps(value, default=str, ensure_ascii=False)


def _short(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def nearest(folder: Path) -> SettingsFile | None:
    begin = folder.absolute()
    for here in (begin, *begin.parents):
        if here != begin and _is_shared(here):
            continue
        found = _in(here)
        if found is not None:
            return found
    return None


def _is_shared(folder: Path) -> bool:
    """Return whether everybody may write to a folder, as /tmp: a file there is not trusted."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IWOTH and mode & stat.S_ISVTX)


def _in(folder: Path) -> SettingsFile | None:
    own, project = folder / OWN, folder / PROJECT
    table = _table_of(project)
    if not _is_file(own):
        return None if table is None else SettingsFile(path=project, values=table)
    if table is not None:
        raise InvalidValue(
            f"{folder} has both {OWN} and [tool.duly] in {PROJECT}: keep {OWN}, with what the "
            f"table says moved into it, and remove [tool.duly]"
        )
    return SettingsFile(path=own, values=_toml(own, _text(own)))


def _table_of(project: Path) -> Mapping[str, object] | None:
    """Return the table ``[tool.duly]``, or None if the project has none."""
    if not _is_file(project):
        return None
    text = _text(project)
    if "duly" not in text or "tool" not in text:
        return None
    tool = _toml(project, text).get("tool")
    table = tool.get("duly") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise InvalidValue(f"{project}: duly in [tool] is not a table: write [tool.duly]")
    return table


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidValue(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{path} is not UTF-8: save it as that") from None


def _toml(path: Path, text: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most commands find no file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidValue(f"{path} is not TOML: {error}") from None


def said_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are settings; empty ones are ignored, unknown ones refused.

    The error names all unknown variables at once.
    """
    ours = {
        name: value
        for name, value in environ.items()
        if name.startswith(PREFIX) and value and not _belongs_to_others(name, value)
    }
    known = [variable for key in keys().values() for variable in key.variables]
    unknown = sorted(ours.keys() - set(known))
    if unknown:
        raise InvalidValue(refusal(unknown, known, place="the environment", prefix=PREFIX))
    return ours


def _belongs_to_others(name: str, value: str) -> bool:
    if name in OTHERS or name.startswith(_OTHERS_BEGIN) or _OF_SERVICE.fullmatch(name):
        return True
    return name.endswith("_PORT") and _LINK.match(value) is not None


def machine_zone() -> str | None:
    """Return the time zone of this machine; it is only suggested, never used as a default."""
    from duly.rules import zone_names  # noqa: PLC0415 - few commands need zone data

    named = os.environ.get("TZ", "").removeprefix(":")
    if not named or named.startswith("/"):
        named = str(Path(named or "/etc/localtime").resolve()).partition("/zoneinfo/")[2]
    zone = named.removeprefix("Etc/")
    return zone if zone in zone_names() else None
