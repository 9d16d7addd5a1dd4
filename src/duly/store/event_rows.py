"""Between rows of events and values."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from duly.instants import from_us, to_us
from duly.model.event import Event
from duly.model.payload import Json
from duly.store.database import Row, Value

# Names have only letters, digits, dots, _ and -: nothing of them is behind this.
LAST = "\x7f"


class Place(NamedTuple):
    """Behind which event to go on."""

    at: int
    id: int


BEGINNING: Final = Place(-1, 0)


def place_of(event: Event) -> Place:
    return Place(to_us(event.at), event.id)


def read(found: Iterable[Row]) -> list[Event]:
    return [
        Event(
            id=number,
            name=name,
            payload=Json(payload),
            key=key,
            at=from_us(at),
            submitter=submitter,
            tenant=tenant,
        )
        for number, name, payload, key, at, submitter, tenant in found
    ]


def span(pattern: str) -> dict[str, Value]:
    """The first and the last name that a pattern means."""
    if pattern.endswith("*"):
        return {"low": pattern[:-1], "high": pattern[:-1] + LAST}
    return {"low": pattern, "high": pattern}
