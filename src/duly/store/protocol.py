"""What the engine and the application may ask of a store, whatever database is below.

Each noun has its protocol. All calls may be made from any number of processes at once; each is one
transaction, and each may be repeated after ``OutcomeUnknown``. The time is the store's own: nobody
tells it what time it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from duly.model.claimed import Claimed
from duly.model.fire import Fire
from duly.model.job import Attempt, Call, Job
from duly.model.journal import Entry, LogLine, Note
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.schedule import Plan, Schedule
from duly.model.states import State
from duly.model.worker import Order, Profile, WorkerInfo
from duly.policy.firing import Facts, Firing
from duly.policy.verdict import Verdict

Decide = Callable[[Facts, datetime], Firing]

# What has been overdue for so long is nobody's business by now.
OVERDUE = timedelta(seconds=30)

# What a nudge is about.
SCHEDULES = "schedules"  # a schedule may be due earlier than it was
JOBS = "jobs"  # a job may be due earlier than any was
READY = "ready"  # a job can be claimed: "ready:" and its queue
WORKERS = "workers"  # a worker is told something, or one of its jobs is asked to end
QUEUES = "queues"  # a queue was paused, limited or set free
LOG = "log"  # a job has said something: "log:" and its number

# Where a worker looks. See the migration that makes the column.
NORMAL, LOW, IDLE, CAREFUL, SUSPECT = range(5)
NO_FLOOR = -(2**63)


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
    keep_result: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Which settlements were written, and which were refused because the job is not held."""

    kept: Sequence[int] = ()
    refused: Sequence[int] = ()
    before: Sequence[int] = ()  # those of the kept that had been written before
    freed: Sequence[str] = ()  # queues in which others became ready who waited at a limit


@dataclass(frozen=True, slots=True)
class Done:
    """A job that succeeded and that nothing waits for."""

    id: int
    fence: int
    result: str | None = None
    keep: int | None = None  # how long the result is kept, in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a worker would like to run next."""

    worker: int
    queue: str
    tasks: Sequence[str]
    limit: int
    shelf: int = NORMAL
    floor: int = NO_FLOOR  # nothing below this rank is looked for
    after: str = ""  # on a fair queue: the tenant that was served last
    free: Mapping[str, int] = field(default_factory=dict)  # resources that are not in use


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What was written of what is done, and what is to be run next."""

    jobs: Sequence[Claimed] = ()
    kept: Sequence[int] = ()
    refused: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a worker hears when it says that it is alive."""

    order: Order
    slots: int | None = None
    signals: Mapping[int, str] = field(default_factory=dict)  # jobs asked to end, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneInfo:
    """A limit under one rendered name, and who is there."""

    name: str
    template: str
    concurrency: int | None
    rate: Rate | None
    running: int
    waiting: int


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

    async def retry_matching(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        first: int | None = None,
        who: str = "",
    ) -> list[int]:
        """Give another chance to the failed jobs that match, the oldest first: their numbers.

        ``error`` is a part of the error or the reason, capital letters or not. ``first`` is how
        many at most. Not one transaction but a row of them: what is done stays done.
        """
        ...

    async def count_failed(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
    ) -> int:
        """How many there are to retry."""
        ...


class Work(Protocol):
    async def register(self, profile: Profile, *, lease: timedelta) -> WorkerInfo:
        """Begin a lease; jobs that waited for somebody who knows their task are set free."""
        ...

    async def renew(self, worker: int, lease: timedelta, *, running: int = 0) -> Beat | None:
        """Prolong a lease that is alive. None: this worker is dead, and must begin anew."""
        ...

    async def listen_to(self, worker: int) -> Beat | None:
        """The same words, without prolonging anything."""
        ...

    async def end_lease(self, worker: int) -> None:
        """Nothing of this worker runs any more: what it held may be taken back at once."""
        ...

    async def workers(self) -> list[WorkerInfo]: ...

    async def living(self) -> list[WorkerInfo]:
        """Those whose lease has not ended."""
        ...

    async def tell(self, who: str | int, order: Order, *, slots: int | None = None) -> int:
        """Give an order to the workers of a name, or to one by its number: how many there are."""
        ...

    async def turn(self, done: Sequence[Done], wish: Wish | None = None) -> Turn:
        """Finish what is done, and take what is wished, in one go where the database can.

        Only from a queue that is plain: not paused, limited or fair. After ``OutcomeUnknown``, what
        is done may be given again, and ``held`` tells what was taken.
        """
        ...

    async def claim(self, wish: Wish) -> list[Claimed]:
        """Take jobs to run, the most urgent first, under the limits of their queue and their own.

        After ``OutcomeUnknown``, ask ``held``.
        """
        ...

    async def ready(self, queues: Sequence[str]) -> list[tuple[str, int]]:
        """Where there is something to claim: queues and shelves."""
        ...

    async def held(self, worker: int) -> list[Claimed]:
        """The jobs that this worker has claimed and not settled."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Write what became of jobs, in one go, each under the fence of its claim."""
        ...

    async def set_queue(self, queue: Queue) -> None: ...

    async def queues(self) -> list[Queue]: ...


class Limits(Protocol):
    async def listed(self, *, limit: int = 1_000) -> list[LaneInfo]:
        """The limits that jobs have met, the last used first."""
        ...

    async def set(self, name: str, *, concurrency: int | None, rate: Rate | None) -> None:
        """Say what counts for a limit, by its name or its template, whatever code says."""
        ...

    async def unset(self, name: str) -> None: ...


class Journal(Protocol):
    async def write(self, entries: Sequence[Entry]) -> None:
        """Write down what jobs have said, in one go, each only if it is run under the fence.

        What a worker that lost its lease has to say is dropped, and what is too much for one job.
        """
        ...

    async def logs(self, job_id: int, *, after: int = 0, limit: int = 1_000) -> list[LogLine]:
        """The lines behind the number ``after``."""
        ...

    async def note(self, job_id: int) -> Note | None:
        """How far a job says it is."""
        ...


class Upkeep(Protocol):
    async def dispatch(self, *, limit: int) -> Dispatched:
        """Make due jobs ready, expire or hurry those that are late."""
        ...

    async def sweep(self, *, limit: int) -> int:
        """The nets: free what waits behind nothing. How many were found."""
        ...

    async def hold_unknown(self, *, patience: timedelta, limit: int) -> int:
        """Set jobs aside whose task no living worker knows, so that they hide nobody."""
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
    alone: bool = False  # it had crashed before, and ran in a process of its own


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
    def limits(self) -> Limits: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def upkeep(self) -> Upkeep: ...

    def listen(self, listener: Callable[[str], None], /) -> None:
        """Call with a topic when something changed, here or in another process. Only a hint."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...
