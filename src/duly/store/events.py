"""Events: they are stored, processed once, and start jobs.

    read      read unprocessed events in the order of arrival; the reactor holds a lock for this,
              so there is one order and not several
    decide    purely, for each event and each schedule that it may concern (``policy.reaction``)
    do        what was decided: rows of the ledger, and jobs (``reactions``)
    see       the events are marked: all of it in one transaction

Locks are taken in the order that ``database`` states.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Final

from duly.errors import Busy, InvalidValue, NotFound
from duly.instants import FIRST_US, LAST_US, from_us, to_us
from duly.model.columns import read_rows
from duly.model.event import EVERY_EVENT, Emitted, EventFilter, StoredEvent
from duly.model.fire import StoredFire
from duly.model.payload import check_text
from duly.model.schedule import StoredSchedule
from duly.policy.reaction import is_meant, reaction
from duly.store import audit, backfill, rows
from duly.store.backfill import ReplayBatch, ReplayRequest, ReplayResult
from duly.store.database import Ask, Operation, Start, Value
from duly.store.enqueueing import Once, done_once
from duly.store.ids import Ids, KeptIds
from duly.store.reactions import carry_out
from duly.store.rows import BEGINNING, EventCursor, ScheduleColumns, event_cursor, span
from duly.store.transactions import ready_in
from duly.store.values import EVENTS, JOBS, Trust
from duly.store.verbs import Noun, reading, verb


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEventPage:
    """Matching events, the newest first, and the cursor to continue with."""

    events: Sequence[StoredEvent]
    after: str | None = None  # the cursor of the next page; None: this is the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Reacted:
    """The result of one pass over new events."""

    events: int = 0  # that were looked at
    jobs: int = 0  # that were made, or moved
    skipped: int = 0  # reactions that were due and came to no job
    withdrawn: int = 0  # jobs that were cancelled by an event
    queues: Sequence[str] = ()  # where jobs can be claimed now
    later: int = 0  # jobs that are to wait for their moment
    more: bool = False  # other events have not been processed
    distrusted: bool = False  # there were events, and the clock was not trusted


# Each is waited for a twentieth of a second: one pass takes five seconds at most.
MOST_BUSY: Final = 100

_PLACE = re.compile(r"(\d{1,18})\.(\d{1,18})", re.ASCII)


def get(number: int) -> Operation[StoredEvent]:
    found = yield from find([number])
    if not found:
        raise NotFound(f"there is no event {number}; it may have been deleted")
    return found[0]


def find(numbers: Sequence[int]) -> Operation[list[StoredEvent]]:
    """Return the events with these numbers that are still kept."""
    return read_rows(StoredEvent, (yield Ask("get_events", {"ids": list(numbers)})))


def page(
    wanted: EventFilter = EVERY_EVENT, *, after: str | None = None, limit: int = 100
) -> Operation[StoredEventPage]:
    """Return events, the newest first; ``after`` is the cursor of the previous page."""
    if limit < 1:
        raise InvalidValue(f"limit={limit}: how many events, from 1")
    at, number = _read_cursor(after)
    asked: dict[str, Value] = {
        **span(wanted.pattern),
        "key": wanted.key,
        "tenant": wanted.tenant,
        "since": to_us(wanted.since) if wanted.since else FIRST_US,
        "until": to_us(wanted.until) if wanted.until else LAST_US,
        "at": at,
        "id": number,
        "limit": limit + 1,
    }
    found = read_rows(StoredEvent, (yield Ask("page_events", asked)))
    events = found[:limit]
    last = f"{to_us(events[-1].at)}.{events[-1].id}" if len(found) > limit else None
    return StoredEventPage(events=events, after=last)


def _read_cursor(text: object) -> tuple[int, int]:
    if text is None:
        return LAST_US, 0
    found = _PLACE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidValue(
            f"after={text!r}: not a cursor of events; pass the `after` of the previous page, or "
            "nothing for the first page"
        )
    return int(found[1]), int(found[2])


def reactions(numbers: Sequence[int]) -> Operation[list[tuple[str, StoredFire]]]:
    """Return how schedules reacted to events: pairs of a schedule's name and its ledger row.

    In the order of names; the ``series`` of a row is the number of the event.
    """
    found = yield Ask("reactions_to", {"ids": list(numbers)})
    return sorted(((name, rows.fire(tuple(fire))) for name, *fire in found), key=lambda one: one[0])


@dataclass(slots=True)
class EventBatch:
    """A batch of events: its size, its cursor, and how far the run got if it was blocked.

    A brief run does not wait for keys that other transactions hold.
    """

    limit: int
    after: EventCursor = BEGINNING
    brief: bool = False
    trust: Trust | None = None
    holds_schedules: bool = False


class EventStore(Noun):
    @verb("operator")
    async def emit(self, events: Sequence[Emitted]) -> list[int]:
        """Store events, all or none; return their numbers in the given order."""
        if not events:
            return []
        numbers = await self._db.insist(self._audited(events))
        self._db.nudge(EVENTS)
        return numbers

    @verb("operator")
    async def emit_once(self, events: Sequence[Emitted], *, key: str, mark: str) -> list[int]:
        """Store events under an idempotency key, like ``JobStore.enqueue_once``."""
        once = Once(self._db.who, check_text(key, "key"), check_text(mark, "mark"))
        start = self._audited(events)
        found = await self._db.insist(lambda: done_once(once, start))
        self._db.nudge(EVENTS)
        return found

    get: Final = reading("viewer", get)
    find: Final = reading("viewer", find)
    page: Final = reading("viewer", page)
    reactions: Final = reading("viewer", reactions)

    @verb(None)
    async def react(self, *, limit: int, trust: Trust | None = None) -> Reacted:
        """Process new events: start the jobs of the schedules that react to them."""
        if not await self._db.write_one(Ask("any_unseen")):
            return Reacted()
        try:
            done = await self._react(EventBatch(limit=limit, trust=trust))
        except Busy:
            done = await self._react_one_by_one(limit, trust)
            if not done.events:
                raise
        self._tell(done)
        return done

    @verb("operator", long=True)
    async def replay(
        self,
        schedule: str,
        *,
        since: datetime,
        until: datetime,
        pattern: str | None = None,
        dry_run: bool = False,
    ) -> ReplayResult:
        """Let a schedule react to the past events that it has not reacted to.

        It takes several transactions; each that is committed stays.
        """
        request = ReplayRequest(name=schedule, since=since, until=until, pattern=pattern)
        foreseen = await self._db.read(lambda: backfill.foresee_replay(request))
        if dry_run:
            return ReplayResult(
                schedule=schedule, events=foreseen.events, skipped=foreseen.skipped, dry_run=True
            )
        await self._db.announce(
            audit.entry(
                "events.replay", audit.schedule(schedule), start=since, end=until, pattern=pattern
            )
        )
        return await self._replayed(request)

    async def _replayed(self, request: ReplayRequest) -> ReplayResult:
        count, skipped, jobs = 0, 0, list[int]()
        place: EventCursor | None = request.beginning
        while place is not None:
            done = await self._replay(request, place)
            self._tell(done)
            count, skipped = count + done.events, skipped + done.skipped
            jobs += done.jobs
            place = done.after
        return ReplayResult(
            schedule=request.name, events=count, jobs=tuple(dict.fromkeys(jobs)), skipped=skipped
        )

    async def _replay(self, request: ReplayRequest, place: EventCursor) -> ReplayBatch:
        return await self._db.insist(lambda: backfill.replay(request, place, self._db.editor()))

    async def _react(self, batch: EventBatch) -> Reacted:
        return await self._db.write(lambda: react(batch, ids=self._db.attempt()))

    async def _react_one_by_one(self, limit: int, trust: Trust | None) -> Reacted:
        """Process one event at a time, skipping events whose schedules are locked by others."""
        found: list[Reacted] = []
        held, busy, place = set[str](), 0, BEGINNING
        while True:
            events = await self._db.read(partial(unseen, limit, place))
            for event in events:
                if event.name in held:
                    continue
                if len(found) == limit or busy == MOST_BUSY:
                    return _together(found, limit)
                before = EventCursor(to_us(event.at), event.id - 1)
                batch = EventBatch(limit=1, after=before, brief=True, trust=trust)
                try:
                    found.append(await self._react(batch))
                except Busy:
                    busy += 1
                    if not batch.holds_schedules:
                        held.add(event.name)
            if len(events) < limit:
                return _together(found, limit)
            place = event_cursor(events[-1])

    def _audited(self, events: Sequence[Emitted]) -> Start[list[int]]:
        kept = self._db.kept()
        return self._db.audited(lambda: emitted(events, ids=kept), lambda _: audit.emitted(events))

    def _tell(self, done: Reacted | ReplayBatch) -> None:
        later = [JOBS] if done.later else []
        self._db.nudge(*ready_in(done.queues), *later)


def emit(events: Sequence[Emitted], numbers: Sequence[int]) -> Ask:
    numbered = zip(events, numbers, strict=True)
    said = [{"id": number, **asdict(event)} for event, number in numbered]
    return Ask("emit_events", {"batch": rows.packed(said)})


def emitted(events: Sequence[Emitted], *, ids: KeptIds) -> Operation[list[int]]:
    """Store events; a repeated call finds its own rows."""
    numbers = list((yield from ids.draw(len(events))))
    ids.all_new((yield emit(events, numbers)), len(events))
    return numbers


def react(batch: EventBatch, *, ids: Ids) -> Operation[Reacted]:
    """Process the next events: decide and carry out the reactions of the schedules."""
    batch.holds_schedules = False
    [(instant,)] = yield Ask("hold_reactor")
    if batch.trust is not None and not batch.trust(from_us(instant)):
        return Reacted(distrusted=True)
    events = yield from unseen(batch.limit, batch.after)
    if not events:
        return Reacted()
    schedules = yield from _concerned(events)
    batch.holds_schedules = True
    if batch.brief:
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
        more=len(events) == batch.limit,
    )


def unseen(limit: int, after: EventCursor) -> Operation[list[StoredEvent]]:
    """Return unprocessed events in the order of arrival."""
    asked = {"limit": limit, "at": after.at, "id": after.id}
    return read_rows(StoredEvent, (yield Ask("unseen_events", asked)))


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


def _together(found: Sequence[Reacted], limit: int) -> Reacted:
    return Reacted(
        events=sum(one.events for one in found),
        jobs=sum(one.jobs for one in found),
        skipped=sum(one.skipped for one in found),
        withdrawn=sum(one.withdrawn for one in found),
        queues=[queue for one in found for queue in one.queues],
        later=sum(one.later for one in found),
        more=len(found) == limit,
    )
