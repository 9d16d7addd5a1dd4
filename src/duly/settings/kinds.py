"""What a setting may be: read from a file or from text, checked, and shown again.

A kind refuses with what is possible; whoever asked it says where the value was found.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Generic, TypeVar

from duly.durations import parse_duration, show_duration
from duly.errors import InvalidValue, RuleError
from duly.model.payload import check_text
from duly.settings.suggestion import meant

T = TypeVar("T")

NONE: Final = "none"  # of several names: in a file it is an empty list
_TOKEN = re.compile(r"[A-Za-z0-9-]{1,100}")
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class Kind(Generic[T]):
    """``parse`` makes of text what a file would hold; ``read`` checks what a file holds."""

    secret = False  # a value of it is never shown as it is

    def parse(self, text: str) -> object:
        return text

    def read(self, value: object) -> T:
        raise NotImplementedError

    def plain(self, value: T) -> object:
        """The value as JSON has it, for people and programs to read."""
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
class Count(Kind[int]):
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
class Choice(Kind[str]):
    words: Sequence[str]

    def parse(self, text: str) -> object:
        return text.strip().lower()

    def read(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise InvalidValue(f"one of {', '.join(self.words)}{_near(value, self.words)}")
        return value


@dataclass(frozen=True, slots=True)
class Names(Kind[tuple[str, ...]]):
    """Several names; ``example`` is one of them, and ``least`` how many there are."""

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
            raise InvalidValue("a name is not empty")
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
    """Names that there are only so many of."""

    words: Sequence[str] = ()

    def checked(self, name: str) -> str:
        if name not in self.words:
            there = f"there are {', '.join(self.words)}"
            raise InvalidValue(f'"{name}" is none: {there}{_near(name, self.words)}')
        return name


class Networks(Names):
    __slots__ = ()

    def checked(self, name: str) -> str:
        from ipaddress import ip_network  # noqa: PLC0415 - few have any

        try:
            return str(ip_network(name))
        except ValueError:
            pass
        try:
            whole = str(ip_network(name, strict=False))
        except ValueError:
            raise InvalidValue(f'"{name}" is no network, as {self.example} is one') from None
        raise InvalidValue(f'"{name}" is an address within a network: say {whole}')


class Host(Kind[str]):
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


class Zone(Kind[str]):
    def read(self, value: object) -> str:
        from duly.rules.zone import zone_named  # noqa: PLC0415 - zone data is for who names one

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
