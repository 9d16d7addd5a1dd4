"""Carry out reactions to events: write ledger rows, and start, move or cancel jobs.

A decision is recorded first: where the ledger has a row for the event already, it gets no second
one, and no job. Jobs with a key are treated as ``jobs`` treats them: a waiting job is moved; a
running job is left alone, and the new job waits beside it.

Events are committed in any order. The later event by the store's clock wins, whichever is processed
first: an older event neither replaces the job of a newer one nor cancels it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from duly.instants import from_us, to_us
from duly.model.columns import read_rows
from duly.model.event import StoredEvent
from duly.model.fire import Cause, Outcome
from duly.model.job import JobRequest
from duly.model.schedule import StoredSchedule
from duly.model.states import WAITING, State
from duly.policy.reaction import (
    LastWords,
    Reaction,
    SkipEvent,
    StartJob,
    Withdrawal,
    called_off,
    happened,
    last_words,
    may_touch,
    skipped,
)
from duly.store import rows
from duly.store.database import Ask, Operation, Row, Value
from duly.store.ids import CONFIRMED, Ids, all_new
from duly.store.job_endings import end
from duly.store.rows import JobEnding, span

NOTHING: Final[Mapping[int, int]] = {}
# So many unprocessed events are searched for cancellations: ten batches, so that a backlog of any
# length costs the same per event. Events further behind cancel jobs when they are processed.
AHEAD: Final = 2_000


class Revision(NamedTuple):
    """The new contents of a ledger row."""

    schedule_id: int
    due_at: int
    id: int
    outcome: str
    cause: str | None
    reason: str
    job_id: int | None


class Holder(NamedTuple):
    """The job that holds a key, and the event that started it, if known."""

    id: int
    state: State
    schedule_id: int | None
    fire_id: int | None
    tenant: str
    attempt: int
    event: tuple[datetime, int] | None

    def is_newer_than(self, event: StoredEvent) -> bool:
        return self.event is not None and self.event > event.place

    def is_called_off_by(self, event: StoredEvent) -> bool:
        """Return whether the event cancels the job.

        Only a job that has not begun and that an event started: a job from a person stays.
        """
        return (
            self.state in WAITING
            and self.attempt == 0
            and self.event is not None
            and self.event <= event.place
            and may_touch(event, self.tenant)
        )

    def revised(
        self, outcome: Outcome, reason: str, cause: Cause | None = None
    ) -> Iterator[Revision]:
        """Yield the revision of the job's ledger row, if the row is known."""
        if self.event is None or self.schedule_id is None or self.fire_id is None:
            return
        place = (self.schedule_id, to_us(self.event[0]), self.fire_id)
        yield Revision(*place, outcome=outcome, cause=cause, reason=reason, job_id=self.id)


def holders_in(found: Iterable[Row]) -> dict[tuple[str, str], Holder]:
    """Return the holders of keys, by task and key."""
    return {
        (task, key): Holder(
            number,
            State(state),
            schedule_id,
            fire_id,
            tenant,
            attempt,
            None if event_id is None else (from_us(at), event_id),
        )
        for task, key, number, state, schedule_id, fire_id, tenant, attempt, event_id, at in found
    }


@dataclass(slots=True)
class ReactionResult:
    """The result of carrying out reactions."""

    jobs: list[int] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)  # queues with jobs that can be claimed now
    later: int = 0
    skipped: int = 0
    withdrawn: int = 0


class NumberedStart(NamedTuple):
    """A job to start, with the ids of its ledger row and of the job."""

    start: StartJob
    fire_id: int
    job_id: int

    @property
    def call(self) -> JobRequest:
        return self.start.call

    def values(self, number: int | None = None) -> dict[str, Value]:
        job_id = self.job_id if number is None else number
        mine: dict[str, Value] = {
            "schedule_id": self.start.schedule.id,
            "fire_id": self.fire_id,
            "event": self.start.event.id,
        }
        return rows.call_values(self.call, job_id, self.start.event.id) | mine

    def revised(self, job_id: int, reason: str = "", outcome: str = Outcome.QUEUED) -> "Revision":
        event, said = self.start.event, reason or self.start.reason
        place = (self.start.schedule.id, to_us(event.at), self.fire_id)
        return Revision(*place, outcome=outcome, cause=None, reason=said, job_id=job_id)


def carry_out(
    decided: Sequence[Reaction],
    now: datetime,
    *,
    ids: Ids,
    again: Mapping[int, int] = NOTHING,
) -> Operation[ReactionResult]:
    """Write the decisions in order, each at most once.

    ``again``: the existing ledger rows of events that led to no job and are decided anew.
    """
    decided = yield from _without_called_off(decided)
    entries = [one for one in decided if not isinstance(one, Withdrawal)]
    numbers = yield from ids.draw(2 * len(entries))
    drawn = [(one, next(numbers), next(numbers)) for one in entries]
    wanted = {id(one): (again.get(one.event.id, row), job) for one, row, job in drawn}
    fresh = [_fire(one, *wanted[id(one)]) for one in entries if one.event.id not in again]
    recorded = set(again.values())
    if fresh:
        recorded |= {n for (n,) in (yield Ask("record_fires", {"rows": rows.packed(fresh)}))}
    work = _Work(now, ids)
    work.revise(*(_revision(one, *wanted[id(one)]) for one in entries if one.event.id in again))
    plain: list[NumberedStart] = []
    keyed: list[NumberedStart | Withdrawal] = []
    for one in decided:
        if isinstance(one, Withdrawal):
            keyed.append(one)
        elif wanted[id(one)][0] not in recorded:
            continue
        elif isinstance(one, SkipEvent):
            work.done.skipped += 1
        else:
            mine = NumberedStart(one, *wanted[id(one)])
            (plain if one.call.key is None else keyed).append(mine)
    if plain:
        yield from work.start(plain)
    for batch in _distinct(keyed):
        yield from work.under_keys(batch)
    if work.revisions:
        revised = rows.packed(one._asdict() for one in work.revisions.values())
        yield Ask("revise_fires", {"rows": revised})
    return work.done


def _without_called_off(decided: Sequence[Reaction]) -> Operation[list[Reaction]]:
    """Replace the start of jobs that a later event has cancelled already by a skip."""
    since: dict[str, datetime] = {}
    for one in decided:
        timing = one.schedule.plan.reaction
        if isinstance(one, StartJob) and timing is not None and timing.unless is not None:
            since[timing.unless] = min(one.event.at, since.get(timing.unless, one.event.at))
    later: dict[str, list[StoredEvent]] = {}
    for unless, first in since.items():
        asked = {**span(unless), "since": to_us(first), "ahead": AHEAD}
        later[unless] = read_rows(StoredEvent, (yield Ask("later_events", asked)))
    schedules = {one.schedule.id: one.schedule for one in decided}
    last = {number: _last_words(one, later) for number, one in schedules.items()}
    return [_unless_called_off(one, last[one.schedule.id]) for one in decided]


def _last_words(schedule: StoredSchedule, later: Mapping[str, Sequence[StoredEvent]]) -> LastWords:
    timing = schedule.plan.reaction
    unless = None if timing is None else timing.unless
    return last_words(schedule, later.get(unless or "", ()))


def _unless_called_off(one: Reaction, last: LastWords) -> Reaction:
    if not isinstance(one, StartJob):
        return one
    why = called_off(one, last)
    if why is None:
        return one
    said = f"{happened(one.event)} was cancelled by {happened(why)}"
    return skipped(one.event, one.schedule, Cause.WITHDRAWN, said)


def _distinct(
    keyed: Iterable[NumberedStart | Withdrawal],
) -> list[list[NumberedStart | Withdrawal]]:
    """Split the decisions, in order, into batches in which no key occurs twice."""
    batches: list[dict[tuple[str, str], NumberedStart | Withdrawal]] = []
    for one in keyed:
        if not batches or _key(one) in batches[-1]:
            batches.append({})
        batches[-1][_key(one)] = one
    return [list(batch.values()) for batch in batches]


def _key(one: NumberedStart | Withdrawal) -> tuple[str, str]:
    if isinstance(one, Withdrawal):
        return one.schedule.plan.task, one.key
    return one.call.task, one.call.key or ""


@dataclass(slots=True)
class _Work:
    now: datetime
    ids: Ids
    done: ReactionResult = field(default_factory=ReactionResult)
    revisions: dict[int, Revision] = field(default_factory=dict)  # the last revision of each row

    def revise(self, *revisions: Revision) -> None:
        self.revisions |= {one.id: one for one in revisions}

    def start(self, wanted: Sequence[NumberedStart]) -> Operation[None]:
        batch = rows.packed(one.values() for one in wanted)
        all_new((yield Ask("enqueue_as", {"batch": batch, **CONFIRMED})), len(wanted))
        for one in wanted:
            self._count(one, one.job_id)

    def under_keys(self, batch: Sequence[NumberedStart | Withdrawal]) -> Operation[None]:
        """Carry out decisions with distinct keys; lock each key's row before its job is read."""
        starts = [one for one in batch if isinstance(one, NumberedStart)]
        if starts:
            yield Ask("take_keys", {"batch": rows.packed(one.values() for one in starts)})
        asked = rows.packed({"task": task, "key": key} for task, key in map(_key, batch))
        if len(starts) < len(batch):
            yield Ask("hold_keys", {"rows": asked})
        holders = holders_in((yield Ask("key_holders", {"rows": asked})))
        yield from self._start_keyed([(one, holders.get(_key(one))) for one in starts])
        for one in batch:
            if isinstance(one, Withdrawal) and (holder := holders.get(_key(one))):
                yield from self._withdraw(one, holder)

    def _start_keyed(
        self, starts: Iterable[tuple[NumberedStart, Holder | None]]
    ) -> Operation[None]:
        moving: list[tuple[NumberedStart, Holder]] = []
        fresh: list[NumberedStart] = []
        for one, holder in starts:
            if holder is not None and not may_touch(one.start.event, holder.tenant):
                self._leave_alone(one)
            elif holder is not None and holder.is_newer_than(one.start.event):
                self._stand_back(one, holder)
            elif holder is not None and holder.state in WAITING:
                moving.append((one, holder))
            else:
                fresh.append(one)
        if moving:
            fresh += yield from self._move(moving)
        if fresh:
            batch = rows.packed(one.values() for one in fresh)
            yield Ask("point_keys", {"batch": batch})
            yield from self.start(fresh)

    def _leave_alone(self, one: NumberedStart) -> None:
        said = f'the key "{one.call.key}" belongs to a job of another tenant'
        row = one.revised(one.job_id, said, Outcome.SKIPPED)
        self.revise(row._replace(cause=Cause.REFUSED, job_id=None))
        self.done.skipped += 1

    def _stand_back(self, one: NumberedStart, holder: Holder) -> None:
        """Merge a start into the job of a newer event, which stays as it is."""
        number = holder.event[1] if holder.event else 0
        said = f"merged: event {number} came later with the same key, and was processed first"
        self.revise(one.revised(holder.id, said, Outcome.MERGED))

    def _move(
        self, moving: Sequence[tuple[NumberedStart, Holder]]
    ) -> Operation[list[NumberedStart]]:
        """Move waiting jobs to newer events; return the starts whose job did not wait any more."""
        batch = rows.packed(one.values(holder.id) for one, holder in moving)
        moved = {number for (number,) in (yield Ask("move_jobs", {"batch": batch}))}
        yield Ask("forget_signals_of_moved", {"batch": batch})
        done = [(one, holder) for one, holder in moving if holder.id in moved]
        if done:
            mine = rows.packed(one.values(holder.id) for one, holder in done)
            yield Ask("adopt_jobs", {"rows": mine})
        for one, holder in done:
            said = f"merged into the reaction to {happened(one.start.event)}, with the same key"
            self.revise(*holder.revised(Outcome.MERGED, said), one.revised(holder.id))
            self._count(one, holder.id)
        return [one for one, holder in moving if holder.id not in moved]

    def _withdraw(self, one: Withdrawal, holder: Holder) -> Operation[None]:
        """Cancel a waiting job; not one that has begun, nor one that no event started."""
        if not holder.is_called_off_by(one.event):
            return
        said = f"cancelled by {happened(one.event)}"
        peeked = yield Ask("peek_jobs", {"ids": [holder.id]})
        ending = JobEnding(State.CANCELLED, said)
        ended = yield from end({holder.id: ending}, peeked, ids=self.ids)
        if ended.ids:
            self.done.withdrawn += 1
            self.done.queues += ended.freed
            self.revise(*holder.revised(Outcome.SKIPPED, said, Cause.WITHDRAWN))

    def _count(self, one: NumberedStart, job_id: int) -> None:
        self.done.jobs.append(job_id)
        if one.start.moment > self.now:
            self.done.later += 1
        else:
            self.done.queues.append(one.call.queue)


def _fire(one: StartJob | SkipEvent, fire_id: int, job_id: int) -> dict[str, object]:
    """Return the ledger row of a decision, before keys are examined."""
    at, starts = to_us(one.event.at), isinstance(one, StartJob)
    return {
        "id": fire_id,
        "schedule_id": one.schedule.id,
        "due_at": at,
        "covers_from": at,
        "count": 1,
        "outcome": Outcome.QUEUED if starts else Outcome.SKIPPED,
        "cause": one.cause if isinstance(one, SkipEvent) else None,
        "reason": one.reason,
        "job_id": job_id if starts else None,
        "series": one.event.id,
    }


def _revision(one: StartJob | SkipEvent, fire_id: int, job_id: int) -> Revision:
    """Return the revision of an existing ledger row for a decision."""
    if isinstance(one, StartJob):
        return NumberedStart(one, fire_id, job_id).revised(job_id)
    place = (one.schedule.id, to_us(one.event.at), fire_id)
    return Revision(*place, Outcome.SKIPPED, cause=one.cause, reason=one.reason, job_id=None)
