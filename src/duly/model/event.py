"""An event: something that happened, as somebody said. Work starts because of it.

``Emitted`` is what somebody says; ``Event`` is that as the store remembers it. What an event means
is up to whoever listens: a schedule whose rule is ``on invoice.*``, or a step that waits for one.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duly.errors import InvalidValue, RuleError
from duly.model.payload import EMPTY, Json, check_json, check_text, decode
from duly.rules.event_rule import check_name, matches
from duly.rules.event_rule import check_pattern as read_pattern

__all__ = ["Emitted", "Event", "awaited", "check_event", "check_pattern", "matches"]


def check_event(name: object) -> str:
    """The name of an event, as ``invoice.paid``."""
    try:
        return check_name(name)
    except RuleError as error:
        raise InvalidValue(error.message) from None


def check_pattern(pattern: object) -> str:
    """Which events are meant: ``invoice.paid``, ``invoice.*`` or ``*``."""
    try:
        return read_pattern(pattern)
    except RuleError as error:
        raise InvalidValue(error.message) from None


def awaited(event: str, key: str | None) -> str:
    """What a job waits for that waits for an event: of that name, and about that, if it says so."""
    return event if key is None else f"{event}:{key}"


def read_awaited(text: str) -> tuple[str, str | None]:
    """Which event, and about what; a name has no colon in it, and a key may."""
    event, _, key = text.partition(":")
    return event, key or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What happened, and about what: ``key`` is for whoever waits for this very one."""

    name: str
    payload: Json = EMPTY  # an object: its fields are what tasks take
    key: str | None = None
    submitter: str = ""
    tenant: str = ""

    def __post_init__(self) -> None:
        check_event(self.name)
        if not isinstance(decode(check_json(self.payload, "payload")), dict):
            raise InvalidValue(
                f"{self.name}: its payload is an object, whose fields tasks take by name: "
                '{"invoice_id": 7}'
            )
        if self.key is not None and not check_text(self.key, "key"):
            raise InvalidValue(f"{self.name}: an empty key is about nothing: leave it out")
        check_text(self.submitter, "submitter")
        check_text(self.tenant, "tenant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened, as it is remembered."""

    id: int
    name: str
    payload: Json
    key: str | None
    at: datetime
    submitter: str = ""
    tenant: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        found = decode(self.payload)
        return found if isinstance(found, dict) else {}

    @property
    def place(self) -> tuple[datetime, int]:
        """What came later is greater, whoever saw it first."""
        return self.at, self.id
