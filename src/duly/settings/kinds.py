"""The kinds of settings: how a value is read from a file or from text, checked and shown.

A kind raises ``InvalidValue`` with what is possible; the caller adds where the value was found.

Some settings name a location: a store, an app, a file. A relative location in a settings file is
relative to that file; one from the command line or the environment to the working folder.
"""

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Generic, TypeVar

from duly.durations import parse_duration, show_duration
from duly.errors import InvalidValue, RuleError
from duly.model.payload import check_text

T = TypeVar("T")

NONE: Final = "none"  # text for an empty list of names
_TOKEN = re.compile(r"[A-Za-z0-9-]{1,100}")
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")

HIDDEN: Final = "***"
_POSTGRES = ("postgresql://", "postgres://")
_REMOTE = ("https://", "http://")
_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.]*):")
# Up to the last @: a password with an unquoted / or @ must be hidden too.
_USER = re.compile(r"//([^:@/]*):.*@", re.DOTALL)
# The other connection format of libpq: host=… dbname=…
_WORDS = re.compile(
    r"\s*(?:host|hostaddr|port|dbname|user|password|passfile|service|sslmode|options)\s*=",
    re.IGNORECASE,
)
# Before the @, the characters / ? # @ must be quoted as %2F %3F %23 %40. Otherwise a part of a
# password would be taken for a host or a database name, and shown.
_ADDRESS = re.compile(
    r"//(?:[^@/?#]*@)?(?:\[[^\]@/?#]*\]|[^@/?#:,\[\]]*)(?::\d*)?"
    r"(?:,(?:\[[^\]@/?#]*\]|[^@/?#:,\[\]]*)(?::\d*)?)*"
    r"(?:/[^@/?#]*)?(?:\?(?:[^=&#]+=[^&#]*(?:&|$))*)?",
    re.ASCII,
)
_PASSWORD = re.compile(r"(?<=[?&])((?:ssl)?password=)[^&]*", re.IGNORECASE)
# Names that other programs, or other parts of duly, use for the settings.
_ELSEWHERE = {
    "store": "url",
    "database": "url",
    "database_url": "url",
    "timezone": "zone",
    "tz": "zone",
    "workers": "processes",
    "slots": "concurrency",
    "bind": "host",
    "networks": "allow_networks",
    "retention": "keep_history",
    "keep": "keep_history",
    "schedules": "schedules_file",
    "schedule_file": "schedules_file",
}


class Kind(Generic[T]):
    """``parse`` turns text into the value a file would hold; ``read`` checks that value."""

    secret = False  # whether a value may hold a secret

    def parse(self, text: str) -> object:
        return text

    def read(self, value: object) -> T:
        raise NotImplementedError

    def plain(self, value: T) -> object:
        """Return the value in JSON types."""
        return value


class Switch(Kind[bool]):
    def parse(self, text: str) -> object:
        word = text.strip().lower()
        return True if word in _YES else False if word in _NO else text

    def read(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise InvalidValue("true or false")
        return value


@dataclass(frozen=True, slots=True)
class Number(Kind[int]):
    least: int
    most: int

    def parse(self, text: str) -> object:
        digits = text.strip()
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else text

    def read(self, value: object) -> int:
        if type(value) is not int or not self.least <= value <= self.most:
            raise InvalidValue(f"a whole number from {self.least} to {self.most}")
        return value


@dataclass(frozen=True, slots=True)
class Length(Kind[timedelta]):
    least: timedelta
    most: timedelta

    def read(self, value: object) -> timedelta:
        if isinstance(value, bool) or not isinstance(value, str | int | float | timedelta):
            raise InvalidValue('a length of time, as "90s", "5m" or "2d"')
        try:
            length = parse_duration(value)  # type: ignore[arg-type]  # it refuses bare numbers
        except RuleError as error:
            raise InvalidValue(str(error)) from None
        if not self.least <= length <= self.most:
            raise InvalidValue(f"from {_shown(self.least)} to {_shown(self.most)}")
        return length

    def plain(self, value: timedelta) -> object:
        return _shown(value)


@dataclass(frozen=True, slots=True)
class OneOf(Kind[str]):
    words: Sequence[str]

    def parse(self, text: str) -> object:
        return text.strip().lower()

    def read(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise InvalidValue(f"one of {', '.join(self.words)}{_near(value, self.words)}")
        return value


@dataclass(frozen=True, slots=True)
class Names(Kind[tuple[str, ...]]):
    """A list of names; ``example`` is used in messages, ``least`` is the minimum number."""

    example: str
    least: int = 0

    def parse(self, text: str) -> object:
        if text.strip() == NONE and not self.least:
            return []
        return [name.strip() for name in text.split(",")]

    def read(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
            raise InvalidValue(f'several names, as ["{self.example}"]')
        if len(value) < self.least:
            raise InvalidValue(f'one name at least, as ["{self.example}"]')
        return tuple(dict.fromkeys(self.checked(name) for name in value))

    def checked(self, name: str) -> str:
        if not check_text(name, "a name"):
            raise InvalidValue("a name must not be empty")
        return name

    def plain(self, value: tuple[str, ...]) -> object:
        return list(value)


class Modules(Names):
    __slots__ = ()

    def checked(self, name: str) -> str:
        if not all(part.isidentifier() for part in name.split(".")):
            raise InvalidValue(f'"{name}" is no module, as {self.example} is one')
        return name


@dataclass(frozen=True, slots=True)
class Words(Names):
    """A list of names out of a fixed set."""

    words: Sequence[str] = ()

    def checked(self, name: str) -> str:
        if name not in self.words:
            there = f"there are {', '.join(self.words)}"
            raise InvalidValue(f'"{name}" is none: {there}{_near(name, self.words)}')
        return name


class Networks(Names):
    __slots__ = ()

    def checked(self, name: str) -> str:
        from ipaddress import ip_network  # noqa: PLC0415 - rarely used

        try:
            return str(ip_network(name))
        except ValueError:
            pass
        try:
            whole = str(ip_network(name, strict=False))
        except ValueError:
            raise InvalidValue(f'"{name}" is no network, as {self.example} is one') from None
        raise InvalidValue(f'"{name}" is an address within a network: say {whole}')


class HostName(Kind[str]):
    def read(self, value: object) -> str:
        if not isinstance(value, str) or not value or set(value) & set(" \t\n/[]@"):
            raise InvalidValue('a name or an address of this machine, as "127.0.0.1" or "::1"')
        if value.count(":") == 1:
            host, _, port = value.partition(":")
            raise InvalidValue(f'a host without a port: host "{host}" and port {port}')
        return value


class Header(Kind[str]):
    def read(self, value: object) -> str:
        if not isinstance(value, str) or not _TOKEN.fullmatch(value):
            raise InvalidValue('the name of a header, as "X-Forwarded-User"')
        return value.lower()


class ZoneName(Kind[str]):
    def read(self, value: object) -> str:
        from duly.rules.zone import zone_named  # noqa: PLC0415 - loads zone data, rarely used

        if not isinstance(value, str):
            raise InvalidValue('a time zone by its name, as "Europe/Berlin"')
        try:
            return zone_named(value).name
        except RuleError as error:
            raise InvalidValue(str(error)) from None


def _near(value: object, words: Collection[str]) -> str:
    near = meant(value, words) if isinstance(value, str) else None
    return f"; did you mean {near}?" if near else ""


def _shown(length: timedelta) -> str:
    days, rest = divmod(length, timedelta(days=1))
    return f"{days}d{show_duration(rest) if rest else ''}" if days else show_duration(length)


def check_address(url: str) -> None:
    """Refuse a store address that would be read wrongly or would expose its password."""
    if url.startswith(_POSTGRES) and not _ADDRESS.fullmatch(url, url.index("//")):
        raise InvalidValue(
            "a PostgreSQL database is postgresql://user:password@host:5432/database; in a user or "
            "a password, write / as %2F, @ as %40, ? as %3F, # as %23"
        )
    if url.startswith(_REMOTE):
        _check_remote(url)
    if _WORDS.match(url):
        raise InvalidValue(
            "a PostgreSQL database is postgresql://user@host/database, and not host=… dbname=…; "
            "for a file of such a name, say ./…"
        )


def _check_remote(url: str) -> None:
    """Refuse a server address over which the token could leak."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - rarely used

    refusal = InvalidValue(
        "a duly elsewhere is https://host, https://host:port or https://host/path; its token is in "
        "a file: --token-file FILE"
    )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise refusal from None
    if not host or parts.query or parts.fragment or "@" in parts.netloc or not url.isprintable():
        raise refusal
    if parts.scheme == "http" and not _LOOPBACK.fullmatch(host):
        raise InvalidValue(
            f"a token would be read on the way to http://{parts.netloc}: say https://; http:// is "
            "for this machine, as http://127.0.0.1:8400"
        )


class Location(Kind[str]):
    def seen_from(self, value: str, folder: Path) -> str:
        """Return the location as an absolute path; relative ones start at ``folder``."""
        return str(folder / value)


class StoreAddress(Location):
    secret = True

    def read(self, value: object) -> str:
        path = value.removeprefix("sqlite:///") if isinstance(value, str) else ""
        scheme = _SCHEME.match(path)
        if path == ":memory:":
            raise InvalidValue(
                "an in-memory database would be a different one for every process; give the path "
                "of a file"
            )
        check_address(path)
        if path.startswith((*_POSTGRES, *_REMOTE)) or (path and scheme is None):
            return path
        if scheme is None or scheme[1].lower() in ("sqlite", "file"):
            raise InvalidValue("an SQLite database is a path, as duly.db, or sqlite:///duly.db")
        if scheme[1].lower().startswith("postgres"):
            raise InvalidValue("a PostgreSQL database is postgresql://user@host/database")
        raise InvalidValue(
            f'"{scheme[1]}:" is not a database; use sqlite:///path, postgresql:// or https://'
        )

    def seen_from(self, value: str, folder: Path) -> str:
        return value if value.startswith((*_POSTGRES, *_REMOTE)) else str(folder / value)

    def plain(self, value: str) -> object:
        if not value.startswith(_POSTGRES):
            return value
        without = _PASSWORD.sub(rf"\g<1>{HIDDEN}", value)
        return _USER.sub(rf"//\g<1>:{HIDDEN}@", without)


class TokenFile(Location):
    def read(self, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise InvalidValue('a file that only you may read, as "~/.config/duly/token"')
        return os.path.expanduser(value)  # noqa: PTH111 - text in, text out


class AppTarget(Location):
    def read(self, value: object) -> str:
        if not isinstance(value, str) or not value.partition(":")[0]:
            raise InvalidValue(
                'a file or a module, as "tasks.py", "shop.tasks" or "shop.tasks:duly"'
            )
        if value.endswith(".toml"):
            raise InvalidValue("an app is Python; a file of schedules is schedules_file")
        return value

    def seen_from(self, value: str, folder: Path) -> str:
        place = value.partition(":")[0]
        return str(folder / value) if place.endswith(".py") or os.sep in place else value


class SchedulesFile(Location):
    def read(self, value: object) -> str:
        if not isinstance(value, str) or not value.endswith(".toml"):
            raise InvalidValue('a file, as "schedules.toml"')
        return value


def refusal(unknown: Iterable[str], known: Collection[str], *, place: str, prefix: str = "") -> str:
    """Return the message about all unknown settings at once.

    ``prefix``, with which all names begin, is ignored in the comparison.
    """
    bare = {name.removeprefix(prefix).lower(): name for name in known}
    near = {name: meant(name.removeprefix(prefix), bare) for name in unknown}
    told = [f"{name} (did you mean {bare[one]}?)" if one else name for name, one in near.items()]
    there = "" if all(near.values()) else f"; there are {', '.join(known)}"
    return f"{place}: no setting is called {', '.join(told)}{there}"


def meant(name: str, known: Collection[str]) -> str | None:
    """Return the closest known name, or the name of this setting here; None if there is none."""
    from difflib import get_close_matches  # noqa: PLC0415 - only after a misspelling

    plain = name.lower()
    for same in (plain, _ELSEWHERE.get(plain)):
        if same in known:
            return same
    near = get_close_matches(plain, known, n=1)
    return near[0] if near else None
