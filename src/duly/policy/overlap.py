"""The overlap policy: what a due moment does while an earlier job of its schedule has not ended.

"Not ended" is every state but a final one: waiting for its moment, for a worker or for a retry,
running, or lost with its worker and not yet taken back. A job that waits for an earlier one is
``blocked`` until that one ends.

``Lineup`` applies the policy to the moments of one decision, oldest first; each moment also meets
the jobs that earlier moments made. So a night of them under ``overlap="queue_one"`` makes one job,
for the newest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, assert_never

from duly.model.fire import Cause, Outcome
from duly.model.job import PRIORITIES
from duly.model.policies import Overlap
from duly.model.schedule import Plan
from duly.model.states import State
from duly.policy import sentences
from duly.policy.decision import LedgerEntry, LiveJob, NewJob

MOST_QUEUED = 1_000

HURRIED = PRIORITIES["high"]


@dataclass(frozen=True, slots=True)
class RunNow:
    """Make a job that may run at once."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Make a job that starts when those before it have ended; ask ``stopping`` to end now."""

    behind: LiveJob
    stopping: tuple[LiveJob, ...] = ()


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Make no job: the waiting job now runs for the newer moment."""

    waiting: LiveJob
    stopping: tuple[LiveJob, ...] = ()


@dataclass(frozen=True, slots=True)
class SkipMoment:
    """Make no job."""

    because_of: LiveJob


@dataclass(frozen=True, slots=True)
class Full:
    """Make no job: too many wait already."""

    waiting: int


Answer: TypeAlias = RunNow | Wait | TakeOver | SkipMoment | Full


def answer(overlap: Overlap, live: Sequence[LiveJob], waiting: int = 0) -> Answer:
    """Return what to do about a due moment, given the earlier jobs that have not ended.

    ``waiting`` counts jobs of the clock that wait and are not among ``live``.
    """
    if not live:
        return RunNow()
    match overlap:
        case "allow":
            return RunNow()
        case "skip":
            return SkipMoment(live[0])
        case "queue_one":
            return _newest_waits(live, ())
        case "replace":
            stopping = tuple(job for job in live if job.started and not job.backfilled)
            return _newest_waits(live, stopping)
        case "queue_all":
            waiting += sum(not job.started and not job.backfilled for job in live)
            return Full(waiting) if waiting >= MOST_QUEUED else Wait(live[-1])
        case _:
            assert_never(overlap)


def _newest_waits(live: Sequence[LiveJob], stopping: tuple[LiveJob, ...]) -> Answer:
    waiting = [job for job in live if not job.started and not job.backfilled]
    return TakeOver(waiting[-1], stopping) if waiting else Wait(live[-1], stopping)


@dataclass
class Lineup:
    """The unfinished jobs of one schedule, and the entries decided so far."""

    plan: Plan
    now: datetime
    live: list[LiveJob]
    waiting: int = 0  # jobs of the clock that wait and are not in ``live``
    entries: list[LedgerEntry] = field(default_factory=list)
    stopping: list[int] = field(default_factory=list)
    # Entries whose job was handed to the next entry: all but the last are merged into the last.
    # There is at most one such chain, because there is one waiting job to hand over.
    _chain: list[int] = field(default_factory=list)
    _full: Full | None = None  # once full, it stays full for the whole decision

    def fire(self, moment: datetime, ready: datetime) -> LedgerEntry:
        """Decide one due moment, given the unfinished jobs."""
        decision = self._full or answer(self.plan.policies.overlap, self.live, self.waiting)
        match decision:
            case RunNow():
                entry = self._queue(moment, ready)
            case Wait(behind, stopping):
                waits = sentences.waits(behind, self.plan, stopping=bool(stopping))
                entry = self._queue(moment, ready, blocked=waits)
                self._stop(stopping)
            case TakeOver(waiting, stopping):
                entry = self._take_over(moment, waiting)
                self._stop(stopping)
            case SkipMoment(job):
                said = sentences.overlap(job, self.plan)
                entry = LedgerEntry.of_one(moment, Outcome.SKIPPED, said, cause=Cause.OVERLAP)
            case Full(waiting_jobs):
                self._full = decision
                said = sentences.full(waiting_jobs)
                entry = LedgerEntry.of_one(moment, Outcome.SKIPPED, said, cause=Cause.EXHAUSTED)
            case _:
                assert_never(decision)
        self.entries.append(entry)
        return entry

    def skip(self, moment: datetime, cause: Cause, reason: str) -> None:
        """Record that one due moment is skipped."""
        self.entries.append(LedgerEntry.of_one(moment, Outcome.SKIPPED, reason, cause=cause))

    def decided(self) -> list[LedgerEntry]:
        """Return the entries of all moments, oldest first."""
        found = list(self.entries)
        for place in self._chain[:-1]:
            said = sentences.merged(self.plan, found[self._chain[-1]].due_at)
            found[place] = LedgerEntry.of_one(found[place].due_at, Outcome.MERGED, said)
        return found

    def _queue(self, moment: datetime, ready: datetime, blocked: str = "") -> LedgerEntry:
        job = self._job(moment, ready, blocked)
        self._chain = [len(self.entries)]
        self.live.append(LiveJob(None, job.state, moment))
        said = sentences.queued(moment, self.now, blocked)
        return LedgerEntry.of_one(moment, Outcome.QUEUED, said, job=job)

    def _job(self, moment: datetime, ready: datetime, blocked: str) -> NewJob:
        policies, priority = self.plan.policies, self.plan.priority
        deadline = self._deadline(moment)
        if deadline and deadline < self.now:  # late="hurry": a late job goes first
            priority, deadline = max(priority, HURRIED), None
        state = State.SCHEDULED if ready > self.now else State.READY
        return NewJob(
            state=State.BLOCKED if blocked else state,
            due_at=moment,
            ready_at=ready,
            deadline=deadline,
            late=policies.late,
            priority=priority,
            reason=blocked,
        )

    def _take_over(self, moment: datetime, waiting: LiveJob) -> LedgerEntry:
        """Hand the waiting job to the newer moment; the job keeps its place in the queue."""
        older = self.entries[self._chain[-1]] if self._chain else None
        self._chain.append(len(self.entries))
        if older is not None and older.job is not None:
            job = self._job(moment, older.job.ready_at, older.job.reason)
            said = sentences.queued(moment, self.now, job.reason)
            return LedgerEntry.of_one(moment, Outcome.QUEUED, said, job=job)
        known = (older and older.takes_over) or waiting
        entry = LedgerEntry.of_one(moment, Outcome.QUEUED, sentences.took_over(known, self.plan))
        return replace(entry, takes_over=known, deadline=self._deadline(moment))

    def _stop(self, stopping: Sequence[LiveJob]) -> None:
        for job in stopping:
            if job.id is not None and job.id not in self.stopping:
                self.stopping.append(job.id)

    def _deadline(self, moment: datetime) -> datetime | None:
        policies = self.plan.policies
        if policies.start_within is None or policies.late == "run":
            return None
        return moment + policies.start_within
