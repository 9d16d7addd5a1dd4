"""The table ``[alerts]`` of duly.toml: what is told, how often, and to whom.

A text may name environment variables as ``${NAME}``, so that secrets stay out of the file. They are
looked up when a message is sent: a command that sends none does not need them.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal

from duly.durations import LONGEST
from duly.errors import InvalidValue
from duly.model.alert import KINDS
from duly.model.payload import check_text
from duly.settings.kinds import Kind, Length, Names, Number, Words, refusal

_VARIABLE = re.compile(r"\$\{(\w+)\}", re.ASCII)
_HOST = re.compile(r"[a-z]+://([^/?#]*)", re.IGNORECASE)
_SECOND: Final = timedelta(seconds=1)
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
    "late_after": Length(_SECOND, LONGEST),
    "queue_depth": Number(1, 1_000_000_000),
    "queue_age": Length(_SECOND, LONGEST),
    "group": _ANY_LENGTH,
    "every": _ANY_LENGTH,
    "repeat": Length(_SECOND, LONGEST),
    "ping": WebAddress(),
    "ping_every": Length(_SECOND, LONGEST),
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


class AlertTable(Kind[AlertSettings]):
    """The whole table; in the environment it is written as JSON."""

    secret = True

    def parse(self, text: str) -> object:
        try:
            found: object = json.loads(text)
        except ValueError:
            return text
        return found

    def read(self, value: object) -> AlertSettings:
        if isinstance(value, AlertSettings):
            return value
        if not isinstance(value, dict):
            raise InvalidValue('a table, as [alerts] with [[alerts.to]] webhook = "https://…"')
        rest = dict(value)
        given = rest.pop("to", [])
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise InvalidValue("alerts.to is a list of tables: write [[alerts.to]]")
        common = table_values(rest, _COMMON, "alerts")
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
    said = table_values(table, {name: _DESTINATION[name] for name in _DESTINATION}, place)
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


def table_values(
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
