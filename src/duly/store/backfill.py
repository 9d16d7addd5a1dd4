"""Jobs for the past: a backfill of a schedule's moments, and a replay of events.

A backfill gives past moments a job, all of them in one transaction, or none. The schedule is locked
meanwhile, so that no other transaction makes jobs of its moments. A moment that has had a job from
any source is left alone: a repeated backfill adds nothing. With ``again`` it does; but then, too, a
call whose answer was lost finds the rows of its own number.

In a replay, a schedule reacts to events from before it existed or while it was paused. Only events
without a row in its ledger are replayed: the row prevents a second reaction, whether the replay or
the reactor comes second. Events whose row says that nothing was done, since the event lacked
something or the schedule was paused, are replayed too, and the row is then revised.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from duly.errors import InvalidValue, WrongState
from duly.instants import from_us, to_us
from duly.model.columns import read_rows
from duly.model.event import StoredEvent, check_pattern
from duly.model.fire import Backfill, LeftAlone, Outcome, StoredFire
from duly.model.schedule import StoredSchedule
from duly.policy import sentences
from duly.policy.backfill import backfilled, check_stretch, forgotten, moments_of, notes
from duly.policy.reaction import StartJob, reaction
from duly.rules import On
from duly.rules.event_rule import matches
from duly.store import ledger, rows
from duly.store.database import Ask, Operation, Value, current_time
from duly.store.reactions import carry_out
from duly.store.rows import EventCursor, event_cursor, span
from duly.store.schedule_changes import get, lock, note, row_of
from duly.store.transactions import Editor
from duly.store.values import Decide


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRun:
    """A requested backfill; its number identifies a repeated call."""

    name: str
    since: datetime
    until: datetime
    again: bool = False
    number: int = 0


def backfill(request: BackfillRun, editor: Editor) -> Operation[Backfill]:
    check_stretch(request.since, request.until)
    row, schedule, now = yield from lock(request.name, editor)
    moments = moments_of(schedule, request.since, request.until, cursor=schedule.cursor, now=now)
    fires = yield from _queued(schedule, moments)
    others = _had(fire for fire in fires if fire.series != request.number)
    jobs = [fire.job_id or 0 for fire in fires if fire.series == request.number]
    wanted = moments if request.again else _without(moments, others)
    if wanted and not jobs:  # else a repeated call: it was written, and the answer was lost
        [facts] = yield from ledger.known([schedule], [row])
        entries = backfilled(facts, wanted, now, who=editor.who)
        jobs = yield from ledger.write_manual(
            schedule, entries, series=request.number, ids=editor.ids
        )
        said = sentences.backfill(request.since, request.until, len(wanted), plan=schedule.plan)
        yield from note(schedule, editor.who, said)
    told = yield from _told(request, schedule, moments, others)
    return replace(told, jobs=tuple(jobs))


def foresee_backfill(request: BackfillRun, *, decide: Decide) -> Operation[Backfill]:
    """Return what ``backfill`` would do (dry run); due moments are decided but not written."""
    check_stretch(request.since, request.until)
    row = yield from row_of(request.name)
    schedule, now = rows.schedule(row), (yield from current_time())
    cursor, coming = schedule.cursor, list[LeftAlone]()
    if schedule.next_at is not None and schedule.next_at <= now:
        [facts] = yield from ledger.known([schedule], [row], now=now, hold=False)
        firing = decide(facts, now)
        cursor = firing.cursor
        coming = [
            LeftAlone(entry.due_at, None, "the clock is about to queue it")
            for entry in firing.entries
            if entry.outcome is Outcome.QUEUED and request.since <= entry.due_at < request.until
        ]
    moments = moments_of(schedule, request.since, request.until, cursor=cursor, now=now)
    fires = yield from _queued(schedule, moments)
    told = yield from _told(request, schedule, moments, [*_had(fires), *coming])
    return replace(told, dry_run=True)


def _queued(schedule: StoredSchedule, moments: Sequence[datetime]) -> Operation[list[StoredFire]]:
    if not moments:
        return []
    instants = [to_us(moment) for moment in moments]
    values: dict[str, Value] = {
        "schedule_id": schedule.id,
        "first": instants[0],
        "last": instants[-1],
        "moments": instants,
    }
    return [rows.fire(row) for row in (yield Ask("queued_fires", values))]


def _had(fires: Iterable[StoredFire]) -> list[LeftAlone]:
    return [LeftAlone(fire.due_at, fire.job_id, fire.reason) for fire in fires]


def _without(moments: Iterable[datetime], known: Iterable[LeftAlone]) -> list[datetime]:
    had = {one.due_at for one in known}
    return [moment for moment in moments if moment not in had]


def _told(
    request: BackfillRun,
    schedule: StoredSchedule,
    moments: Sequence[datetime],
    known: Sequence[LeftAlone],
) -> Operation[Backfill]:
    """Return the report of a backfill; of several jobs of a moment, it names the last."""
    wanted = moments if request.again else _without(moments, known)
    left = {} if request.again else {one.due_at: one for one in known}
    oldest = yield Ask("oldest_fire", {"schedule_id": schedule.id})
    lost = forgotten(schedule, wanted, rows.fire(oldest[0]) if oldest else None)
    return Backfill(
        schedule=request.name,
        start=request.since,
        end=request.until,
        queued=tuple(wanted),
        left_alone=tuple(left[due_at] for due_at in sorted(left)),
        forgotten=tuple(lost),
        notes=notes(schedule, wanted, lost),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result of replaying events to a schedule."""

    schedule: str
    events: int = 0
    jobs: Sequence[int] = ()  # that were made, or moved
    skipped: int = 0
    dry_run: bool = False  # nothing was done: it is a forecast


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


def foresee_replay(request: ReplayRequest) -> Operation[ReplayBatch]:
    """Return what a replay would do (dry run), without regard to keys."""
    schedule = yield from get(request.name)
    now = yield from current_time()
    found, _ = yield from _next(schedule, request, request.beginning, limit=MOST_REPLAYED + 1)
    if len(found) > MOST_REPLAYED:
        raise InvalidValue(
            f"more than {MOST_REPLAYED:,} events, which is the maximum for one replay: choose a "
            "shorter period"
        )
    decided = [reaction(one, schedule, now, replayed=True) for one in found]
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
        after=event_cursor(found[-1]) if len(found) == BATCH else None,
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
    first, end = (
        sentences.shown_whole(one, schedule.plan) for one in (request.since, request.until)
    )
    return f"replayed events from {first} to {end}"
