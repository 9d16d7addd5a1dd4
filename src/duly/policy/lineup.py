"""Due moments among the jobs of their schedule: each finds its place, or finds none.

The moments of one decision come here oldest first, and each meets the jobs that those before it
made. So a night's worth of them under ``overlap="queue_one"`` makes one job, for the newest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from duly.model.fire import Cause, Outcome
from duly.model.schedule import Plan
from duly.model.states import State
from duly.policy import sentences
from duly.policy.decision import Entry, NewJob
from duly.policy.overlap import Full, LiveJob, Skip, Start, TakeOver, Wait, answer

HURRIED = 50  # the priority called "high"


@dataclass
class Lineup:
    """The jobs of one schedule that have not ended, and what is decided among them."""

    plan: Plan
    now: datetime
    live: list[LiveJob]
    waiting: int = 0  # jobs of the clock that wait and are not in ``live``
    entries: list[Entry] = field(default_factory=list)
    stopping: list[int] = field(default_factory=list)
    # Entries whose job went on to the next: all but the last are merged into the last. There is
    # one such chain at most, because whoever takes over takes the same waiting job.
    _chain: list[int] = field(default_factory=list)
    _full: Full | None = None  # nobody leaves the line while a decision is made

    def fire(self, moment: datetime, ready: datetime) -> Entry:
        """Let one due moment meet the jobs that have not ended."""
        decision = self._full or answer(self.plan.policies.overlap, self.live, self.waiting)
        match decision:
            case Start():
                entry = self._queue(moment, ready)
            case Wait(behind, stopping):
                waits = sentences.waits(behind, self.plan, stopping=bool(stopping))
                entry = self._queue(moment, ready, blocked=waits)
                self._stop(stopping)
            case TakeOver(waiting, stopping):
                entry = self._take_over(moment, waiting)
                self._stop(stopping)
            case Skip(job):
                said = sentences.overlap(job, self.plan)
                entry = _single(moment, Outcome.SKIPPED, said, cause=Cause.OVERLAP)
            case Full(waiting_jobs):
                self._full = decision
                said = sentences.full(waiting_jobs)
                entry = _single(moment, Outcome.SKIPPED, said, cause=Cause.EXHAUSTED)
            case _:
                assert_never(decision)
        self.entries.append(entry)
        return entry

    def skip(self, moment: datetime, cause: Cause, reason: str) -> None:
        """Let one due moment pass."""
        self.entries.append(_single(moment, Outcome.SKIPPED, reason, cause=cause))

    def decided(self) -> list[Entry]:
        """What became of the moments, oldest first."""
        found = list(self.entries)
        for place in self._chain[:-1]:
            said = sentences.merged(self.plan, found[self._chain[-1]].due_at)
            found[place] = _single(found[place].due_at, Outcome.MERGED, said)
        return found

    def _queue(self, moment: datetime, ready: datetime, blocked: str = "") -> Entry:
        job = self._job(moment, ready, blocked)
        self._chain = [len(self.entries)]
        self.live.append(LiveJob(None, job.state, moment))
        said = sentences.queued(moment, self.now, blocked)
        return _single(moment, Outcome.QUEUED, said, job=job)

    def _job(self, moment: datetime, ready: datetime, blocked: str) -> NewJob:
        policies, priority = self.plan.policies, self.plan.priority
        deadline = self._deadline(moment)
        if deadline and deadline < self.now:  # late="hurry": what is late already goes first
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

    def _take_over(self, moment: datetime, waiting: LiveJob) -> Entry:
        """The waiting job stands for the newer moment, at the place in line that it has."""
        older = self.entries[self._chain[-1]] if self._chain else None
        self._chain.append(len(self.entries))
        if older is not None and older.job is not None:
            job = self._job(moment, older.job.ready_at, older.job.reason)
            said = sentences.queued(moment, self.now, job.reason)
            return _single(moment, Outcome.QUEUED, said, job=job)
        known = (older and older.takes_over) or waiting
        entry = _single(moment, Outcome.QUEUED, sentences.took_over(known, self.plan))
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


def _single(
    moment: datetime,
    outcome: Outcome,
    reason: str,
    *,
    cause: Cause | None = None,
    job: NewJob | None = None,
) -> Entry:
    return Entry(
        due_at=moment,
        covers_from=moment,
        count=1,
        outcome=outcome,
        reason=reason,
        cause=cause,
        job=job,
    )
