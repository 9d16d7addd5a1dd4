"""Operations on events: they are stored, processed once, and start jobs.

    look      read unprocessed events in the order of arrival; the reactor holds a lock for this,
              so there is one order and not several
    decide    purely, for each event and each schedule that it may concern (``policy.reacting``)
    do        what was decided: rows of the ledger, and jobs (``reactions``)
    see       the events are marked: all of it in one transaction

Locks are taken in the order that ``database`` states.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from duly.errors import InvalidValue, NotFound
from duly.instants import FIRST_US, LAST_US, from_us, to_us
from duly.model.event import Emitted, StoredEvent, check_pattern
from duly.model.fire import StoredFire
from duly.model.payload import check_text
from duly.model.schedule import StoredSchedule
from duly.policy.reaction import is_meant, reaction
from duly.store import rows
from duly.store.database import Ask, Operation, Value
from duly.store.ids import Ids, KeptIds
from duly.store.reactions import carry_out
from duly.store.rows import BEGINNING, EventCursor, ScheduleColumns, read, span
from duly.store.values import Reacted, StoredEventPage, Trust

_PLACE = re.compile(r"(\d{1,18})\.(\d{1,18})", re.ASCII)


def emit(events: Sequence[Emitted], numbers: Sequence[int]) -> Ask:
    said = [
        {
            "id": number,
            "name": event.name,
            "key": event.key,
            "payload": event.payload,
            "submitter": event.submitter,
            "tenant": event.tenant,
        }
        for event, number in zip(events, numbers, strict=True)
    ]
    return Ask("emit_events", {"batch": rows.packed(said)})


def emitted(events: Sequence[Emitted], *, ids: KeptIds) -> Operation[list[int]]:
    """Store events; a repeated call finds its own rows."""
    numbers = list((yield from ids.draw(len(events))))
    ids.all_new((yield emit(events, numbers)), len(events))
    return numbers


@dataclass(slots=True)
class Look:
    """A batch of events: its size, its cursor, and how far the run got if it was blocked.

    A brief run does not wait for keys that other transactions hold.
    """

    limit: int
    after: EventCursor = BEGINNING
    brief: bool = False
    trust: Trust | None = None
    holds_schedules: bool = False


def react(look: Look, *, ids: Ids) -> Operation[Reacted]:
    """Process the next events: decide and carry out the reactions of the schedules."""
    look.holds_schedules = False
    [(instant,)] = yield Ask("hold_reactor")
    if look.trust is not None and not look.trust(from_us(instant)):
        return Reacted(distrusted=True)
    events = yield from unseen(look.limit, look.after)
    if not events:
        return Reacted()
    schedules = yield from _concerned(events)
    look.holds_schedules = True
    if look.brief:
        yield Ask("be_brief")
    now = from_us(instant)
    decided = [
        found
        for event in events
        for schedule in schedules
        if (found := reaction(event, schedule, now)) is not None
    ]
    done = yield from carry_out(decided, now, ids=ids)
    numbers = [event.id for event in events]
    yield Ask("compare_events", {"ids": numbers})
    yield Ask("see_events", {"ids": numbers})
    return Reacted(
        events=len(events),
        jobs=len(done.jobs),
        skipped=done.skipped,
        withdrawn=done.withdrawn,
        queues=done.queues,
        later=done.later,
        more=len(events) == look.limit,
    )


def unseen(limit: int, after: EventCursor) -> Operation[list[StoredEvent]]:
    """Return unprocessed events in the order of arrival."""
    asked = {"limit": limit, "at": after.at, "id": after.id}
    return read((yield Ask("unseen_events", asked)))


def _concerned(events: Sequence[StoredEvent]) -> Operation[list[StoredSchedule]]:
    """Lock and return the schedules that may react, and those whose jobs they may cancel."""
    schedules = _readable(rows.schedules((yield Ask("reacting_schedules"))))
    tasks = {
        one.plan.task for one in schedules if any(is_meant(event, one.plan) for event in events)
    }
    wanted = [one.id for one in schedules if one.plan.task in tasks]
    if not wanted:
        return []
    held = rows.schedules((yield Ask("hold_schedules_briefly", {"ids": wanted})))
    return _readable(row for row in held if row.rule.startswith("on "))


def _readable(found: Iterable[ScheduleColumns]) -> list[StoredSchedule]:
    schedules: list[StoredSchedule] = []
    for row in found:
        with suppress(Exception):  # one bad row must not stop the others
            schedules.append(rows.schedule(row))
    return schedules


def get(number: int) -> Operation[StoredEvent]:
    found = yield from find([number])
    if not found:
        raise NotFound(f"there is no event {number}; it may have been deleted")
    return found[0]


def find(numbers: Sequence[int]) -> Operation[list[StoredEvent]]:
    return read((yield Ask("get_events", {"ids": list(numbers)})))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSearch:
    pattern: str
    key: str | None
    since: datetime | None
    until: datetime | None
    tenant: str | None
    after: str | None
    limit: int

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        if self.key is not None:
            check_text(self.key, "key")
        if self.tenant is not None:
            check_text(self.tenant, "tenant")
        if self.limit < 1:
            raise InvalidValue(f"limit={self.limit}: how many events, from 1")


def page(search: EventSearch) -> Operation[StoredEventPage]:
    at, number = _read_place(search.after)
    asked: dict[str, Value] = {
        **span(search.pattern),
        "key": search.key,
        "tenant": search.tenant,
        "since": to_us(search.since) if search.since else FIRST_US,
        "until": to_us(search.until) if search.until else LAST_US,
        "at": at,
        "id": number,
        "limit": search.limit + 1,
    }
    found = read((yield Ask("page_events", asked)))
    events = found[: search.limit]
    last = f"{to_us(events[-1].at)}.{events[-1].id}" if len(found) > search.limit else None
    return StoredEventPage(events=events, after=last)


def reactions(numbers: Sequence[int]) -> Operation[list[tuple[str, StoredFire]]]:
    found = yield Ask("reactions_to", {"ids": list(numbers)})
    return sorted(((name, rows.fire(tuple(fire))) for name, *fire in found), key=lambda one: one[0])


def _read_place(text: object) -> tuple[int, int]:
    if text is None:
        return LAST_US, 0
    found = _PLACE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidValue(
            f"after={text!r}: not a cursor of events; pass the `after` of the previous page, or "
            "nothing for the first page"
        )
    return int(found[1]), int(found[2])
