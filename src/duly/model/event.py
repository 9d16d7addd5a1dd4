"""An event: something that happened, emitted by a program or a person.

``Emitted`` is the event as it is emitted, ``StoredEvent`` as it is stored. A schedule whose rule is
``on invoice.*`` reacts to it, and a step of a flow may wait for it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from duly.errors import InvalidValue, RuleError
from duly.model.payload import EMPTY, Json, check_json, check_text, decode
from duly.rules.event_rule import check_name
from duly.rules.event_rule import check_pattern as read_pattern


def check_event(name: object) -> str:
    """Return the name of an event, as ``invoice.paid``, or refuse it."""
    try:
        return check_name(name)
    except RuleError as error:
        raise InvalidValue(error.message) from None


def check_pattern(pattern: object) -> str:
    """Return a pattern of event names (``invoice.paid``, ``invoice.*``, ``*``), or refuse it."""
    try:
        return read_pattern(pattern)
    except RuleError as error:
        raise InvalidValue(error.message) from None


def awaited(event: str, key: str | None) -> str:
    """Return the ``waits_for`` text of a job that waits for an event, with its key if given."""
    return event if key is None else f"{event}:{key}"


def read_awaited(text: str) -> tuple[str, str | None]:
    """Split a ``waits_for`` text into event name and key; only the key may contain a colon."""
    event, _, key = text.partition(":")
    return event, key or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """An event to emit; ``key`` says what it is about, for steps that wait for it."""

    name: str
    payload: Json = EMPTY  # an object: tasks take its fields as arguments
    key: str | None = None
    submitter: str = ""
    tenant: str = ""

    def __post_init__(self) -> None:
        check_event(self.name)
        if not isinstance(decode(check_json(self.payload, "payload")), dict):
            raise InvalidValue(
                f"{self.name}: its payload must be an object, whose fields tasks take by name, as "
                '{"invoice_id": 7}'
            )
        if self.key is not None and not check_text(self.key, "key"):
            raise InvalidValue(f"{self.name}: the key is empty: leave it out")
        check_text(self.submitter, "submitter")
        check_text(self.tenant, "tenant")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """The events that are asked for, by name, key, time and tenant."""

    pattern: str = "*"
    key: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        if self.key is not None:
            check_text(self.key, "key")
        if self.tenant is not None:
            check_text(self.tenant, "tenant")


EVERY_EVENT: Final = EventFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as it is stored."""

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
        """The position in the order of events; later events are greater."""
        return self.at, self.id
