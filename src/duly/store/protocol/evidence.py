"""What is asked of a store by somebody who wants to know why, or how things stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol

from duly.instants import to_us
from duly.model.fire import Cause, Outcome, StoredFire
from duly.model.job import Job, Waits
from duly.model.schedule import StoredSchedule
from duly.model.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many moments came to the same."""

    outcome: Outcome
    cause: Cause | None
    state: State | None  # of the job that stands for them; None: there is none, or none any more
    moments: int
    late: int = 0  # so many of them were kept, and late


@dataclass(frozen=True, slots=True, kw_only=True)
class HourTally(Tally):
    """The same, of those that were due within an hour."""

    hour: datetime  # its beginning, a whole hour of UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKept:
    """Moments of a schedule that were not kept, all in the same way: the last, and how many."""

    schedule: str
    due_at: datetime
    first: datetime
    last: datetime  # when the last of it happened: was decided, or ended
    moments: int
    cause: Cause | None
    state: State | None
    reason: str
    job_id: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTask:
    """Jobs of a task that failed and that no schedule has made: the last, and how many."""

    task: str
    job_id: int
    ended_at: datetime
    jobs: int
    reason: str
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingKind:
    """Jobs that wait for a worker, and what it must have for them."""

    queue: str
    task: str
    jobs: int
    since: datetime
    last: datetime  # since when the last of them waits
    job_id: int  # one of them
    waits: Waits | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """When a job ran."""

    state: State
    first_at: datetime | None = None  # when it was begun for the first time
    started_at: datetime | None = None  # when its last run began
    ended_at: datetime | None = None


HappeningKind = Literal["moment", "began", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that happened to a moment or to a job."""

    at: datetime
    kind: HappeningKind
    number: int  # of the fire, or of the job
    job_id: int | None
    schedule: str  # its name; empty: there is none, or none any more
    task: str
    title: str
    queue: str
    tenant: str
    state: str  # of the job, or the outcome of the moment
    reason: str
    due_at: datetime

    @property
    def id(self) -> str:
        """The moment and the number, as ``1700000000000000-42``."""
        return f"{to_us(self.at)}-{self.number}"


# Lengths are counted between these, in microseconds: 1, 2, 5, 10, … ms, and 5,000 s or more.
LENGTHS: tuple[int, ...] = tuple(step * 10**digits for digits in range(3, 10) for step in (1, 2, 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What ended in a queue within a stretch of time, and how long it took.

    Of each histogram, the first number counts lengths below the first of ``LENGTHS``, and each
    other those that have reached one more of them.
    """

    start: datetime
    queue: str
    succeeded: int
    failed: int
    others: int
    waiting: Sequence[int]
    running: Sequence[int]
    lateness: Sequence[int]  # of what schedules made


# So many jobs are counted of a queue; one more says that there are even more.
MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """What is in a queue. Any of the numbers above ``MOST_COUNTED`` means: more than that."""

    queue: str
    ready: int = 0
    scheduled: int = 0
    blocked: int = 0
    running: int = 0
    oldest_ready_at: datetime | None = None  # of those that are claimed first
    whole: bool = True  # else there are so many that some scheduled or blocked were not counted


class Evidence(Protocol):
    async def schedule(self, number: int) -> StoredSchedule | None: ...

    async def run_in_the_way(self, schedule: int, moment: datetime) -> Job | None:
        """The oldest job of a schedule that was there at a moment and had not ended."""
        ...

    async def past_runs(self, schedule: int, *, limit: int = 20) -> list[timedelta]:
        """How long the last runs took that ended well."""
        ...

    async def runs_of(self, jobs: Sequence[int]) -> dict[int, RunTimes]:
        """When these jobs ran; without those that have been forgotten."""
        ...

    async def run_after(self, schedule: int, moment: datetime) -> StoredFire | None:
        """The first moment behind another that got a job."""
        ...

    async def last_decision(self, before: datetime) -> datetime | None:
        """When a scheduler last decided anything, about any schedule."""
        ...

    async def count_ahead(self, job: int) -> int:
        """How many jobs are claimed before this one, which is ready; 10,001: even more."""
        ...

    async def running_in(self, queue: str) -> int: ...

    async def asked_to_stop(self, job: int) -> str | None:
        """Why a job that runs was asked to end, if it was."""
        ...

    async def tallies(
        self, since: datetime, *, until: datetime | None = None, late: timedelta
    ) -> list[Tally]:
        """What became of the moments of the clock since then, and before ``until``, counted.

        Those count as late that began later than ``late`` after their moment.
        """
        ...

    async def hour_tallies(
        self, since: datetime, *, until: datetime, due_since: datetime, late: timedelta
    ) -> list[HourTally]:
        """The same of what was decided between two instants, by the hour in which it was due."""
        ...

    async def happened(
        self, since: datetime, *, until: datetime | None = None, limit: int = 1_000
    ) -> list[Happening]:
        """Moments decided, jobs begun that still run, and jobs ended: the last of them, in order.

        A row may become visible later than the instant in it says.
        """
        ...

    async def count_happened(self, since: datetime, *, until: datetime | None = None) -> int: ...

    async def minutes(
        self, since: datetime, until: datetime, *, step: timedelta = timedelta(minutes=1)
    ) -> list[Ended]:
        """What ended, by queue and by stretches of time that long, counted from 1970."""
        ...

    async def depths(self) -> list[Depth]:
        """What is in each queue that is not empty, by name."""
        ...

    async def late_moments(
        self, since: datetime, until: datetime, *, late: timedelta, limit: int = 10
    ) -> list[StoredFire]:
        """Moments decided between two instants that were kept, and late; the last ones first."""
        ...

    async def not_kept(self, since: datetime, *, limit: int = 100) -> list[NotKept]:
        """Moments since then that no choice explains and nobody has acknowledged, the newest first.

        What it stands for in ``access.acknowledge`` is the schedule, the cause or state, ``last``.
        """
        ...

    async def failed_tasks(self, since: datetime, *, limit: int = 100) -> list[FailedTask]:
        """Without those that somebody has acknowledged."""
        ...

    async def waiting(self, *, patience: timedelta, limit: int = 1_000) -> list[WaitingKind]:
        """What has been waiting for a worker for longer than that, the oldest first.

        Without what somebody has acknowledged.
        """
        ...

    async def running(self, *, limit: int = 10) -> list[Job]:
        """The jobs that run, those first that have run longest."""
        ...

    async def awaiting(self, *, limit: int = 10) -> list[Job]:
        """The steps that wait for an event, those first that wait no longer soonest."""
        ...

    async def due_before(self, before: datetime, *, limit: int = 1_000) -> list[StoredSchedule]:
        """Return the schedules that are due before then, those that are overdue first."""
        ...
