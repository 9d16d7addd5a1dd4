"""What the engine and the application may ask of a store, whatever database is below.

Each noun has its protocol. All calls may be made from any number of processes at once; each is one
transaction, and each may be repeated after ``OutcomeUnknown``. The time is the store's own: nobody
tells it what time it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from duly.model.fire import Fire
from duly.model.job import Attempt, Call, Job
from duly.model.queue import Queue
from duly.model.schedule import Plan, Schedule
from duly.model.states import State
from duly.model.worker import WorkerInfo
from duly.policy.firing import Facts, Firing
from duly.policy.verdict import Verdict

Decide = Callable[[Facts, datetime], Firing]

# What has been overdue for so long is nobody's business by now.
OVERDUE = timedelta(seconds=30)

# What a nudge is about.
SCHEDULES = "schedules"  # a schedule may be due earlier than it was
JOBS = "jobs"  # a job may be due earlier than any was
READY = "ready"  # a job can be claimed: "ready:" and its queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """What one pass over the due schedules came to."""

    schedules: int = 0
    fires: int = 0
    jobs: int = 0
    later: int = 0  # … of which so many are to wait for their moment
    faults: Sequence[tuple[str, str]] = ()  # schedules that were set aside: name, reason
    lateness: timedelta = timedelta(0)  # of the most overdue
    rest: timedelta | None = None  # until the next is due; None: no schedule has a next moment
    distrusted: bool = False  # some were due, and the clock was not believed


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """What one pass over the waiting jobs came to."""

    ready: int = 0
    hurried: int = 0
    expired: int = 0
    rest: timedelta | None = None  # until the next job is due or late


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """What one pass over lost jobs came to."""

    lost: int = 0
    poisoned: int = 0
    last: int = 0  # where the next page begins


class HeldJob(Protocol):
    """What must be known of a job to settle it: as it was claimed, or as it was found lost."""

    @property
    def id(self) -> int: ...
    @property
    def fence(self) -> int: ...
    @property
    def task(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def schedule_id(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a job that was run is to become. Written only if the fence still holds."""

    job: HeldJob
    verdict: Verdict
    outcome: str  # the word for the attempt's record
    result: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Which settlements were written, and which were refused because the job is not held."""

    kept: Sequence[int] = ()
    refused: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is due and not done. Health is this, not whether a process is up."""

    now: datetime
    oldest_unfired: datetime | None  # the due moment that has waited longest for a scheduler
    oldest_undispatched: datetime | None
    ready: int
    running: int
    faulty: Sequence[str] = ()  # schedules that stand still until somebody mends them

    @property
    def unfired_for(self) -> timedelta:
        return self.now - self.oldest_unfired if self.oldest_unfired else timedelta(0)

    @property
    def problem(self) -> str | None:
        """What is overdue so long that nobody can be working on it."""
        if self.oldest_unfired and self.now - self.oldest_unfired > OVERDUE:
            return (
                f"a moment has been due since {self.oldest_unfired:%Y-%m-%d %H:%M:%S} UTC and "
                "nobody has fired it: is a scheduler running?"
            )
        if self.oldest_undispatched and self.now - self.oldest_undispatched > OVERDUE:
            return (
                f"a job has been due since {self.oldest_undispatched:%Y-%m-%d %H:%M:%S} UTC and "
                "nobody has made it ready: is a scheduler running?"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long what has ended is kept."""

    history: timedelta = timedelta(days=14)
    fires: timedelta = timedelta(days=90)
    failed: timedelta = timedelta(days=30)


class Schedules(Protocol):
    async def add(self, plans: Sequence[Plan]) -> list[Schedule]:
        """Remember new schedules: all of them, or ``ScheduleExists`` and none."""
        ...

    async def get(self, name: str) -> Schedule: ...

    async def page(self, *, after: str = "", limit: int = 100) -> list[Schedule]:
        """By name, behind the name ``after``."""
        ...

    async def edit(self, name: str, change: Callable[[Plan], Plan], *, who: str = "") -> Schedule:
        """Change a plan. What was due before is decided by the old one; nothing becomes missed."""
        ...

    async def pause(
        self,
        name: str,
        *,
        until: datetime | None = None,
        who: str = "",
        note: str = "",
        catch_up: bool = False,
    ) -> Schedule: ...

    async def resume(self, name: str, *, who: str = "") -> Schedule: ...

    async def skip_next(self, name: str, *, count: int = 1, who: str = "") -> list[datetime]:
        """Enter the next moments into the ledger as skipped, ahead of time."""
        ...

    async def rewind(self, name: str, *, to: datetime, who: str = "") -> Schedule:
        """Set the cursor back: the cure after a clock ran ahead. Nothing is fired twice."""
        ...

    async def run(self, name: str, *, who: str = "") -> Fire:
        """Fire once, now, beside the clock, under the schedule's own overlap policy."""
        ...

    async def remove(self, name: str, *, who: str = "") -> None: ...

    async def changes(self, name: str, *, limit: int = 100) -> list[tuple[datetime, str, str]]: ...


class Ledger(Protocol):
    async def fire(self, decide: Decide, *, limit: int, trust: Callable[[datetime], bool]) -> Fired:
        """Claim due schedules, decide, and write fires, jobs and next moments in one go."""
        ...

    async def foresee(self, name: str, decide: Decide) -> Firing:
        """What firing now would do, without doing it."""
        ...

    async def refresh(self, *, after: int = 0, limit: int = 500) -> int | None:
        """Work next moments out anew that older zone data gave: where to go on, or None."""
        ...

    async def fires(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> list[Fire]:
        """The newest first."""
        ...

    async def covering(self, name: str, moment: datetime) -> Fire | None:
        """The row that accounts for a due moment."""
        ...


class Jobs(Protocol):
    async def enqueue(self, calls: Sequence[Call]) -> list[int]:
        """Promise to run these: all of them, or none. Their numbers, in the order of the calls."""
        ...

    async def get(self, number: int) -> Job: ...

    async def page(self, *, after: int = 0, limit: int = 100) -> list[Job]:
        """Those that have not ended."""
        ...

    async def ended(
        self, state: State, *, since: datetime | None = None, limit: int = 100
    ) -> list[Job]:
        """Those that have: failed ones, or all the others. The newest first."""
        ...

    async def attempts(self, number: int) -> list[Attempt]: ...

    async def cancel(self, number: int, *, reason: str = "") -> State:
        """End a job that waits; ask one that runs to end. The state it is in then."""
        ...

    async def cancel_key(self, task: str, key: str, *, reason: str = "") -> bool: ...

    async def retry(self, number: int, *, who: str = "") -> Job:
        """Give a failed job another chance."""
        ...


class Work(Protocol):
    async def register(
        self, name: str, *, queues: Sequence[str], tasks: Sequence[str], lease: timedelta
    ) -> WorkerInfo: ...

    async def renew(self, worker: int, lease: timedelta) -> bool:
        """Prolong a lease that is alive. False: this worker is dead, and must begin anew."""
        ...

    async def end_lease(self, worker: int) -> None: ...

    async def workers(self) -> list[WorkerInfo]: ...

    async def claim(
        self, worker: int, *, queue: str, tasks: Sequence[str], limit: int
    ) -> list[Job]:
        """Take jobs to run, the most urgent first. After ``OutcomeUnknown``, ask ``held``."""
        ...

    async def held(self, worker: int) -> list[Job]:
        """The jobs that this worker has claimed and not settled."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Write what became of jobs, in one go, each under the fence of its claim."""
        ...

    async def signals(self, worker: int) -> Mapping[int, str]:
        """The jobs of this worker that are asked to end, and why."""
        ...

    async def set_queue(self, queue: Queue) -> None: ...

    async def queues(self) -> list[Queue]: ...


class Upkeep(Protocol):
    async def dispatch(self, *, limit: int) -> Dispatched:
        """Make due jobs ready, expire or hurry those that are late."""
        ...

    async def sweep(self, *, limit: int) -> int:
        """The nets: free what waits behind nothing. How many were found."""
        ...

    async def take_back(
        self, judge: "Judge", *, after: int, margin: timedelta, limit: int
    ) -> TakenBack:
        """Take jobs back from workers whose lease has expired."""
        ...

    async def prune(self, retention: Retention, *, limit: int) -> int:
        """Forget what is old. How many rows went; as many as the limit: there are more."""
        ...

    async def progress(self) -> Progress: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LostJob:
    """A running job whose worker has no lease."""

    id: int
    fence: int
    attempt: int
    crashes: int
    retry: str | None
    worker: int | None
    schedule_id: int | None = None
    task: str = ""
    key: str | None = None


Judge = Callable[[LostJob, datetime], Verdict]


class Store(Protocol):
    """Everything that is remembered."""

    @property
    def schedules(self) -> Schedules: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def jobs(self) -> Jobs: ...
    @property
    def work(self) -> Work: ...
    @property
    def upkeep(self) -> Upkeep: ...

    def listen(self, listener: Callable[[str], None], /) -> None:
        """Call with a topic when something changed, here or in another process. Only a hint."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...
