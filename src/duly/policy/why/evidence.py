"""The evidence about a job that an explanation needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from duly.model.flow import FlowInfo
from duly.model.job import Attempt, StoredJob
from duly.model.journal import ProgressNote
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.states import State
from duly.model.worker import WorkerInfo
from duly.policy.verdict import Tried
from duly.policy.why.answer import LocalClock


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneEvidence:
    """The current state of the limit that a job waits at."""

    name: str
    concurrency: int | None
    rate: Rate | None
    running: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The position of a job in its flow. Steps and parts are counted from 1."""

    flow: int
    flow_name: str
    step: int
    name: str  # of the step
    kind: Literal["step", "map", "wait"] = "step"
    part: int | None = None  # of a mapped step
    parts: int = 1

    def __str__(self) -> str:
        part = "" if self.part is None else f", part {self.part:,} of {self.parts:,}"
        return f"step {self.step:,} ({self.name}{part}) of flow {self.flow} {self.flow_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvidence:
    job: StoredJob
    now: datetime
    zone: str = "UTC"
    schedule: str | None = None  # by its name, if one made the job
    attempts: Sequence[Attempt] = ()  # failed attempts
    note: ProgressNote | None = None  # the progress that the job reported
    runner: WorkerInfo | None = None  # the worker that runs it, or did
    usual: timedelta | None = None  # the usual runtime of its schedule
    stopping: str | None = None  # why it was asked to stop, if it was
    is_gone: bool = False  # the worker's process is known to have ended, whatever its lease says
    living: Sequence[WorkerInfo] = ()  # all living workers
    flow: FlowInfo | None = None  # its steps, if it is a flow that was opened
    lineage: Lineage | None = None  # the flow that it is a step of
    # Only for waiting jobs:
    queue: Queue | None = None
    running_in_queue: int = 0
    ahead: int = 0
    lane: LaneEvidence | None = None
    behind: StoredJob | None = None  # the run of its schedule that it waits for

    @property
    def clock(self) -> LocalClock:
        return LocalClock(self.zone, self.now)

    @property
    def started_at(self) -> datetime | None:
        """The start of the first attempt."""
        return self.attempts[0].started_at if self.attempts else self.job.claimed_at

    @property
    def tries(self) -> str:
        """``attempt 2 of 3``; attempts lost with a worker do not count as tries, and are named.

        A retry by hand gives a job all its tries again.
        """
        job, most = self.job, Tried.of(self.job).retry.attempts
        at = max(1, job.attempt)
        goes_on = job.state in (State.RUNNING, State.SUCCEEDED)  # attempts hold failed ones only
        before = max(0, len(self.attempts) - (at - 1 if goes_on else at))
        # The crash counter of a job is reset when it succeeds.
        lost = sum(one.outcome == "lost" for one in self.attempts[before:])
        crashes = max(job.crashes, lost)
        number = max(1, at - crashes)
        if crashes:
            one = crashes == 1
            told = "1 was lost with its worker" if one else f"{crashes} were lost with workers"
            return f"attempt {before + at} ({told}: try {number} of {most})"
        if before:
            return f"attempt {before + at} ({number} of {most} since it was retried)"
        return f"attempt {number} of {most}" if number <= most else f"attempt {number}"

    @property
    def is_lost(self) -> bool:
        """Whether the job is marked as running although its worker is gone."""
        if self.job.state is not State.RUNNING or self.job.worker is None:
            return False
        return self.is_gone or self.runner is None or self.runner.lease_until <= self.now

    @property
    def runner_name(self) -> str:
        if self.runner is not None:
            return self.runner.name
        return "a worker that is gone" if self.job.worker is None else f"worker {self.job.worker}"
