"""Replaying: a schedule reacts to events from before it existed or while it was paused.

Only events without a row in its ledger are replayed: the row prevents a second reaction, whether
the replay or the reactor comes second. Events whose row says that nothing was done, since the event
lacked something or the schedule was paused, are replayed too, and the row is then revised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from duly.errors import InvalidValue, WrongState
from duly.instants import from_us, to_us
from duly.model.columns import read_rows
from duly.model.event import StoredEvent, check_pattern, matches
from duly.model.schedule import StoredSchedule
from duly.policy.backfill import check_stretch
from duly.policy.reaction import StartJob, reaction
from duly.policy.sentences import shown_whole
from duly.rules import On
from duly.store.database import Ask, Operation
from duly.store.reactions import carry_out
from duly.store.rows import EventCursor, place_of, span
from duly.store.schedule_changes import get, lock, note
from duly.store.transactions import Editor


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result of replaying events to a schedule."""

    schedule: str
    events: int = 0
    jobs: Sequence[int] = ()  # that were made, or moved
    skipped: int = 0
    dry_run: bool = False  # it is what would be done


BATCH = 200
MOST_REPLAYED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    name: str
    since: datetime
    until: datetime
    pattern: str | None = None

    def __post_init__(self) -> None:
        check_stretch(self.since, self.until)
        if self.pattern is not None:
            check_pattern(self.pattern)

    @property
    def beginning(self) -> EventCursor:
        return EventCursor(to_us(self.since) - 1, 2**63 - 1)


@dataclass(slots=True)
class ReplayBatch:
    """The result of one transaction of a replay, and the cursor for the next."""

    events: int = 0
    jobs: list[int] = field(default_factory=list)
    skipped: int = 0
    queues: list[str] = field(default_factory=list)
    later: int = 0
    after: EventCursor | None = None  # None: that was all


def foresee(request: ReplayRequest) -> Operation[ReplayBatch]:
    """Return what a replay would do (dry run), without regard to keys."""
    schedule = yield from get(request.name)
    [(instant,)] = yield Ask("now")
    found, _ = yield from _next(schedule, request, request.beginning, limit=MOST_REPLAYED + 1)
    if len(found) > MOST_REPLAYED:
        raise InvalidValue(
            f"more than {MOST_REPLAYED:,} events, which is the maximum for one replay: choose a "
            "shorter period"
        )
    decided = [reaction(one, schedule, from_us(instant), replayed=True) for one in found]
    starts = sum(isinstance(one, StartJob) for one in decided)
    return ReplayBatch(events=len(found), skipped=len(found) - starts)


def replay(request: ReplayRequest, after: EventCursor, editor: Editor) -> Operation[ReplayBatch]:
    """React to the next events after the cursor."""
    [(instant,)] = yield Ask("hold_reactor")
    _, schedule, _ = yield from lock(request.name, editor)
    now = from_us(instant)
    found, again = yield from _next(schedule, request, after, limit=BATCH)
    if not found:
        return ReplayBatch()
    decided = [reaction(event, schedule, now, replayed=True) for event in found]
    meant = [one for one in decided if one is not None]
    done = yield from carry_out(meant, now, ids=editor.ids, again=again)
    if after == request.beginning:
        yield from note(schedule, editor.who, _said(request, schedule))
    return ReplayBatch(
        events=len(found),
        jobs=done.jobs,
        skipped=done.skipped,
        queues=done.queues,
        later=done.later,
        after=place_of(found[-1]) if len(found) == BATCH else None,
    )


def _timing(schedule: StoredSchedule) -> On:
    timing, name = schedule.plan.reaction, schedule.plan.name
    if timing is None:
        raise WrongState(
            f'"{name}" is due by the clock, "{schedule.plan.rule}": use a backfill for missed runs'
        )
    if schedule.pause is not None:
        raise WrongState(f'"{name}" is paused: resume it first, then replay')
    return timing


def _next(
    schedule: StoredSchedule, request: ReplayRequest, after: EventCursor, *, limit: int
) -> Operation[tuple[list[StoredEvent], dict[int, int]]]:
    """Return the next events that match the schedule's pattern and the request's, if narrower.

    Return also the ledger rows of those that have one.
    """
    timing = _timing(schedule)
    pattern = _narrower(timing.pattern, request.pattern or timing.pattern)
    asked = {
        **span(pattern),
        "schedule_id": schedule.id,
        "at": after.at,
        "id": after.id,
        "until": to_us(request.until),
        "limit": limit,
    }
    found = yield Ask("replayable_events", asked)
    return read_rows(StoredEvent, (row[:-1] for row in found)), {
        row[0]: row[-1] for row in found if row[-1]
    }


def _narrower(own: str, asked: str) -> str:
    if matches(own, asked.removesuffix("*")) or own == asked:
        return asked
    if asked.endswith("*") and matches(asked, own.removesuffix("*")):
        return own
    raise InvalidValue(f'pattern="{asked}": the schedule reacts to "{own}", which never matches it')


def _said(request: ReplayRequest, schedule: StoredSchedule) -> str:
    first, end = (shown_whole(one, schedule.plan) for one in (request.since, request.until))
    return f"replayed events from {first} to {end}"
