"""What the engine and the application may ask of a store, whatever database is below.

Each noun has its protocol. All calls may be made from any number of processes at once; each is one
transaction, and each may be repeated after ``OutcomeUnknown``. The time is the store's own: nobody
tells it what time it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Protocol, TypeAlias

from duly.instants import to_us
from duly.model.access import Acknowledgement, Actor, AuditEntry, Deed, Matter, NewToken, Token
from duly.model.claimed import Claimed
from duly.model.event import Emitted, Event
from duly.model.fire import Backfill, Cause, Outcome, StoredFire
from duly.model.flow import FlowInfo, FlowPlan, FlowProgress, PartInfo
from duly.model.job import Attempt, Call, Job, Waits
from duly.model.job_filter import Filter
from duly.model.journal import Entry, LogLine, ProgressNote
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.schedule import Plan, StoredSchedule
from duly.model.states import State
from duly.model.worker import Order, Profile, WorkerInfo
from duly.policy.firing import Facts, Firing
from duly.policy.verdict import Verdict

# The two decisions that are made while the store holds the rows they are about.
Decide = Callable[[Facts, datetime], Firing]

# Whether the moment that the database's clock shows is to be believed.
Trust: TypeAlias = Callable[[datetime], bool]

# What has been overdue for so long is nobody's business by now.
OVERDUE = timedelta(seconds=30)
# A cursor that is further in the future was left there by a clock that was ahead.
AHEAD = timedelta(minutes=5)

# What a nudge is about.
SCHEDULES = "schedules"  # a schedule may be due earlier than it was
JOBS = "jobs"  # a job may be due earlier than any was
EVENTS = "events"  # something happened
READY = "ready"  # a job can be claimed: "ready:" and its queue
WORKERS = "workers"  # a worker is told something, or one of its jobs is asked to end
QUEUES = "queues"  # a queue was paused, limited or set free
LOG = "log"  # a job has said something: "log:" and its number

# Where a worker looks. See the migration that makes the column.
SHELVES = range(6)
NORMAL, LOW, IDLE, CAREFUL, SUSPECT, CLOCK = SHELVES
NO_FLOOR = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringResult:
    """What one pass over the due schedules came to."""

    schedules: int = 0
    fires: int = 0
    jobs: int = 0
    later: int = 0  # … of which so many are to wait for their moment
    faults: Sequence[tuple[str, str]] = ()  # schedules that were set aside: name, reason
    lateness: timedelta = timedelta(0)  # of the most overdue
    rest: timedelta | None = None  # until the next is due; None: no schedule has a next moment
    distrusted: bool = False  # some were due, and the clock was not believed
    settled: bool = False  # some are due still whose ledger has rows behind the cursor

    def __add__(self, later: "FiringResult") -> "FiringResult":
        """Return what two passes came to, one after the other."""
        return FiringResult(
            schedules=self.schedules + later.schedules,
            fires=self.fires + later.fires,
            jobs=self.jobs + later.jobs,
            later=self.later + later.later,
            faults=[*self.faults, *later.faults],
            lateness=max(self.lateness, later.lateness),
            rest=later.rest,
            distrusted=self.distrusted or later.distrusted,
            settled=later.settled,
        )


class WantedSchedule(NamedTuple):
    """A schedule that code declares, and the names it had before."""

    plan: Plan
    aliases: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What became of a set of schedules that code declares."""

    since: datetime  # from when on the set that holds does
    superseded: bool = False  # somebody holds a newer one: nothing was written
    written: bool = False
    added: Sequence[str] = ()
    changed: Sequence[str] = ()
    renamed: Sequence[tuple[str, str]] = ()
    paused: Sequence[str] = ()  # they are not declared any more
    resumed: Sequence[str] = ()
    drift: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what people have edited
    refused: Mapping[str, str] = field(default_factory=dict)  # and why
    removed: Sequence[str] = ()  # declared, and removed by a person


class LaneRule(NamedTuple):
    """What counts for a limit, by its name or its template, whatever code says."""

    name: str
    concurrency: int | None
    rate: Rate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDefinitions:
    """What is there of all that a file may speak of, by name."""

    schedules: Mapping[str, StoredSchedule]
    queues: Mapping[str, Queue]
    limits: Mapping[str, LaneRule]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStep:
    """A schedule as it is to be; it is refused if what is there is not what was ``seen``."""

    name: str
    seen: StoredSchedule | None  # None: there was none
    plan: Plan | None  # None: it is removed
    paused: bool | None = None  # None: that stays as it is
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStep:
    seen: Queue | None
    queue: Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStep:
    seen: LaneRule | None
    rule: LaneRule
    dropped: bool = False  # code's word counts again


Step: TypeAlias = ScheduleStep | QueueStep | LimitStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """What one pass over the waiting jobs came to."""

    ready: int = 0
    hurried: int = 0
    expired: int = 0
    rest: timedelta | None = None  # until the next job is due or late
    distrusted: bool = False  # some were due or late, and the clock was not believed


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
    @property
    def parent(self) -> int | None: ...
    @property
    def step(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a job that was run is to become. Written only if the fence still holds."""

    job: HeldJob
    verdict: Verdict
    outcome: str  # the word for the attempt's record
    result: str | None = None
    keep_result: timedelta | None = None
    opens: FlowPlan | None = None  # it is a flow, and goes on with these steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Which settlements were written, and which were refused because the job is not held."""

    kept: Sequence[int] = ()
    refused: Sequence[int] = ()
    before: Sequence[int] = ()  # those of the kept that had been written before
    freed: Sequence[str] = ()  # queues of others who are ready now: they waited, or they follow
    tells: frozenset[str] = frozenset()  # topics: flows ask jobs to end, or wait for events


class ReadyShelf(NamedTuple):
    """A shelf of a queue with something to claim for a worker."""

    queue: str
    shelf: int
    among: tuple[str, ...] = ()  # where others' jobs wait too: the tasks of this worker that do


class JobDone(NamedTuple):
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
    among: Sequence[str] = ()  # where others' jobs wait too: those of the tasks that are there
    after: str = ""  # on a fair queue: the tenant that was served last
    free: Mapping[str, int] = field(default_factory=dict)  # resources that are not in use


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What was written of what is done, and what is to be run next."""

    jobs: Sequence[Claimed] = ()
    kept: Sequence[int] = ()
    refused: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What is to be run next, and whether the limits of the queue are why there is no more."""

    jobs: Sequence[Claimed] = ()
    full: bool = False  # as many run of this queue, or have begun, as may
    opens_in: timedelta | None = None  # when its rate lets the next through; None: when one ends


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
class StoreProgress:
    """What is due and not done. Health is this, not whether a process is up."""

    now: datetime
    oldest_unfired: datetime | None  # the due moment that has waited longest for a scheduler
    oldest_undispatched: datetime | None
    ready: int
    running: int
    faulty: Sequence[str] = ()  # schedules that stand still until somebody mends them
    ahead: Sequence[str] = ()  # schedules that rest until a clock that was ahead is there again

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
    parent: int | None = None
    step: int | None = None
    alone: bool = False  # it had crashed before, and ran in a process of its own
    worker_name: str = ""  # empty: nothing is known of the worker any more
    has_ended: bool = False  # the worker did not fall silent: it is known to have ended


Judge = Callable[[LostJob, datetime], Verdict]


LONGEST_TAIL = 400  # characters of an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Jobs that match, and where to go on.

    A page ends when it is full, or when it has looked at enough: then it may hold few jobs, or none
    at all, and yet not be the last.
    """

    jobs: Sequence[Job]
    after: str | None = None  # what the next page is asked for with; None: there is none
    searched_to: datetime | None = None  # what ended since then was looked at, if not everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A job that has failed, as far as it takes to see what failed alike."""

    id: int
    task: str
    queue: str
    ended_at: datetime
    reason: str
    error: str  # the end of it, no more than LONGEST_TAIL


class Access(Protocol):
    async def create_token(self, wanted: NewToken) -> Token:
        """Remember a token; ``WrongState`` if one of that name has not been revoked."""
        ...

    async def find_token(self, hash_of_secret: str) -> Token | None:
        """The token of that hash, if it is neither revoked nor expired: now, not a while ago.

        One look into an index, whatever is asked. When it was last used is noted once a minute.
        """
        ...

    async def tokens(self, *, revoked: bool = False) -> list[Token]:
        """By name: those that have not been revoked; or all, those that have been behind."""
        ...

    async def revoke_token(self, name: str) -> Token: ...

    async def begin_session(self, hash_of_secret: str, *, holder: str, length: timedelta) -> None:
        """Remember that a browser signed in with the secret whose hash is ``holder``."""
        ...

    async def session_holder(self, hash_of_secret: str) -> str | None:
        """The hash of the secret that a session was begun with, while the session lasts."""
        ...

    async def end_session(self, hash_of_secret: str) -> None: ...

    async def append_audit(self, actor: Actor, deed: Deed) -> AuditEntry:
        """Add to the audit log what is no change in the store: that somebody signed in."""
        ...

    async def audit(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        who: str | None = None,
        subject: str | None = None,
    ) -> list[AuditEntry]:
        """The newest first, of those between the numbers ``after`` and ``before``."""
        ...

    async def verify_audit(self) -> int | None:
        """The number of the first entry that is not as it was written, or is gone; None: none."""
        ...

    async def acknowledge(self, matter: Matter, *, note: str = "") -> Acknowledgement:
        """Say that a matter is not a problem, as far as it has gone; it needs nobody any more."""
        ...

    async def acknowledged(self) -> list[Acknowledgement]:
        """The newest first."""
        ...

    async def forget_acknowledgement(self, subject: str, kind: str) -> bool:
        """Whether there was one to take back."""
        ...


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
class EndedStats:
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
    ) -> list[EndedStats]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTask:
    """A task that jobs wait for, or schedules will want, and what a worker must have for it."""

    task: str
    queue: str
    jobs: int = 0
    schedules: int = 0
    needs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """Jobs that run, as the store has it, and whose worker has no lease or is known to be dead."""

    worker: int
    name: str  # empty: nothing else is known of the worker
    jobs: int
    ended_at: datetime | None  # when its lease ran out; None: it was ended, or is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class BadDay:
    """A day of a table that is kept by the day, and that cannot take rows."""

    table: str
    day: datetime
    state: Literal["missing", "detached"]


class Surroundings(Protocol):
    async def now(self) -> datetime:
        """What time it is on the store's clock."""
        ...

    async def newest(self) -> datetime | None:
        """When something was last written by a scheduler or a worker, on the clock of then."""
        ...

    async def settings(self) -> Mapping[str, str]:
        """How the database is set up, in its own words."""
        ...

    async def bad_days(self, *, ahead: int) -> list[BadDay]:
        """Of today and the days that follow. None, where rows are not kept by the day."""
        ...

    async def zone_data(self) -> Mapping[str, int]:
        """How many next moments were worked out with each release of the zone data."""
        ...

    async def wanted(self, *, limit: int = 1_000) -> list[WantedTask]:
        """What jobs that have not begun, and schedules that are neither paused nor over, call."""
        ...

    async def living(self) -> list[WorkerInfo]:
        """The workers whose lease has not ended; unlike ``work.living``, asked without writing."""
        ...

    async def orphans(self, *, dead: Sequence[int] = (), limit: int = 100) -> list[Orphans]:
        """Jobs of workers that have no lease, and of those that are known to be ``dead``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEventPage:
    """Events that match, the newest first, and where to go on."""

    events: Sequence[Event]
    after: str | None = None  # what the next page is asked for with; None: there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Reacted:
    """What one look at new events came to."""

    events: int = 0  # that were looked at
    jobs: int = 0  # that were made, or moved
    skipped: int = 0  # reactions that were due and came to no job
    withdrawn: int = 0  # jobs that were called off
    queues: Sequence[str] = ()  # where jobs can be claimed now
    later: int = 0  # jobs that are to wait for their moment
    more: bool = False  # others have not been looked at
    distrusted: bool = False  # there were some, and the clock was not believed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What became of events that a schedule had not reacted to."""

    schedule: str
    events: int = 0
    jobs: Sequence[int] = ()  # that were made, or moved
    skipped: int = 0
    dry_run: bool = False  # it is what would be done


class Events(Protocol):
    async def emit(self, events: Sequence[Emitted]) -> list[int]:
        """Remember what happened: all of it, or nothing. The numbers, in the order given."""
        ...

    async def emit_once(self, events: Sequence[Emitted], *, key: str, mark: str) -> list[int]:
        """The same under a key, as jobs are: see ``Jobs.enqueue_once``."""
        ...

    async def get(self, number: int) -> Event: ...

    async def find(self, numbers: Sequence[int]) -> list[Event]:
        """Those of the events that are remembered."""
        ...

    async def page(
        self,
        *,
        pattern: str = "*",
        key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> StoredEventPage:
        """The newest first; ``after`` is what the page before gave."""
        ...

    async def react(self, *, limit: int, trust: Trust | None = None) -> Reacted:
        """Look at events that nobody has looked at, and start what is to be started."""
        ...

    async def replay(
        self,
        schedule: str,
        *,
        since: datetime,
        until: datetime,
        pattern: str | None = None,
        dry_run: bool = False,
    ) -> ReplayResult:
        """Let a schedule react to what happened, from ``since`` up to ``until``, without it.

        Not one transaction but a row of them. What it has reacted to before it leaves alone.
        """
        ...

    async def reactions(self, numbers: Sequence[int]) -> list[tuple[str, StoredFire]]:
        """What each schedule that reacts to events made of some: its name, and the ledger's row.

        By the names; the ``series`` of a row is the event.
        """
        ...


class Schedules(Protocol):
    async def add(self, plans: Sequence[Plan]) -> list[StoredSchedule]:
        """Remember new schedules: all of them, or ``ScheduleExists`` and none."""
        ...

    async def get(self, name: str) -> StoredSchedule: ...

    async def page(self, *, after: str = "", limit: int = 100) -> list[StoredSchedule]:
        """By name, behind the name ``after``."""
        ...

    async def edit(self, name: str, change: Callable[[Plan], Plan]) -> StoredSchedule:
        """Change a plan. What was due before is decided by the old one; nothing becomes missed."""
        ...

    async def pause(
        self,
        name: str,
        *,
        until: datetime | None = None,
        note: str = "",
        catch_up: bool = False,
    ) -> StoredSchedule: ...

    async def resume(self, name: str) -> StoredSchedule: ...

    async def skip_next(self, name: str, *, count: int = 1) -> list[datetime]:
        """Enter the next moments that are not skipped into the ledger as such, ahead of time."""
        ...

    async def unskip(self, name: str) -> list[datetime]:
        """Take back every moment ahead that was skipped in advance; return these moments."""
        ...

    async def rewind(self, name: str, *, to: datetime) -> StoredSchedule:
        """Set the cursor back: the cure after a clock ran ahead. Nothing is fired twice."""
        ...

    async def run(self, name: str) -> StoredFire:
        """Fire once, now, beside the clock, under the schedule's own overlap policy."""
        ...

    async def backfill(
        self,
        name: str,
        *,
        since: datetime,
        until: datetime,
        again: bool = False,
        dry_run: bool = False,
    ) -> Backfill:
        """Make a job for each moment from ``since`` up to ``until`` that has had none, or for all.

        All of them or none; they are the rule's as it is now, and have passed.
        """
        ...

    async def remove(self, name: str) -> None: ...

    async def changes(self, name: str, *, limit: int = 100) -> list[tuple[datetime, str, str]]: ...

    async def declare(
        self,
        app: str,
        mark: str,
        wanted: Sequence[WantedSchedule],
        *,
        whole: bool = True,
        held: bool = False,
    ) -> Declared:
        """Say again and again which set of schedules an app's code has; the newest is written.

        Unless it is ``whole``, others may know more: it yields to them, and pauses nothing. Whoever
        has ``held`` the word before takes it back from an older set.
        """
        ...

    async def in_code(self, name: str) -> tuple[str, Plan] | None:
        """The app whose code declares a schedule, and as what; None: no code does."""
        ...

    async def removed(self) -> list[tuple[str, str]]:
        """The schedules, each with its app, that code declares and that somebody has removed."""
        ...

    async def applied(self, file: str) -> str | None:
        """The text that was last applied under this name."""
        ...

    async def standing(self, names: Sequence[str]) -> StoredDefinitions:
        """The schedules of these names, and all queues and limits that were set."""
        ...

    async def apply(
        self, file: str, *, expected: str | None, record: str, steps: Sequence[Step]
    ) -> None:
        """Take all the steps, and remember ``record`` as applied; or ``WrongState``, and nothing.

        ``expected`` is the text that was applied last when the steps were planned.
        """
        ...


class Ledger(Protocol):
    async def fire(self, decide: Decide, *, limit: int, trust: Trust) -> FiringResult:
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
    ) -> list[StoredFire]:
        """The newest first."""
        ...

    async def latest(self, numbers: Sequence[int]) -> dict[int, StoredFire]:
        """Of each of these schedules, the moment that was dealt with last."""
        ...

    async def recent(
        self, numbers: Sequence[int], *, limit: int = 20
    ) -> dict[int, list[StoredFire]]:
        """Of each of them the last few, the newest first; an empty list where there are none."""
        ...

    async def skipped_ahead(self, numbers: Sequence[int]) -> dict[int, frozenset[datetime]]:
        """Of those of these schedules that have any, the moments to come that are skipped."""
        ...

    async def covering(self, name: str, moment: datetime) -> StoredFire | None:
        """The row that accounts for a due moment."""
        ...


class Jobs(Protocol):
    async def enqueue(self, calls: Sequence[Call]) -> list[int]:
        """Promise to run these: all of them, or none. Their numbers, in the order of the calls."""
        ...

    async def enqueue_once(self, calls: Sequence[Call], *, key: str, mark: str) -> list[int]:
        """The same, under a key of whom the store acts for: asked again, the numbers again.

        ``mark`` tells what is asked: with another one, ``WrongState``. A key is known for a day.
        """
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

    async def flow(self, number: int) -> FlowInfo | None:
        """The steps of a job that is a flow and has been opened. None: there are none."""
        ...

    async def parts(
        self, number: int, step: int, *, after: int = -1, limit: int = 100
    ) -> list[PartInfo]:
        """The jobs of a step of a flow."""
        ...

    async def flow_progress(self, numbers: Sequence[int]) -> dict[int, FlowProgress]:
        """How far those of the jobs are that are flows."""
        ...

    async def cancel(self, number: int, *, reason: str = "") -> State:
        """End a job that waits; ask one that runs to end. The state it is in then."""
        ...

    async def cancel_key(self, task: str, key: str, *, reason: str = "") -> bool: ...

    async def retry(self, number: int) -> Job:
        """Give a failed job another chance."""
        ...

    async def find(self, wanted: Filter, *, after: str | None = None, limit: int = 100) -> Page:
        """Those that match, what lives first; ``after`` is what the page before gave.

        Of what lives, the highest number first, which is about the newest; of what has ended, the
        last to end. A page looks at so many jobs and no more: it may be short, or empty, and not
        the last.
        """
        ...

    async def count(self, wanted: Filter, *, at_most: int = 10_000) -> int:
        """How many match; ``at_most`` means that there are as many or more."""
        ...

    async def failures(self, wanted: Filter, *, limit: int = 2_000) -> list[Failure]:
        """The newest that match and have failed, of the newest that have failed at all."""
        ...

    async def retry_found(self, wanted: Filter, *, first: int | None = None) -> list[int]:
        """Give another chance to those that match and have failed, the oldest failure first.

        Not one transaction but a row of them: what is done stays done.
        """
        ...

    async def cancel_found(self, wanted: Filter, *, reason: str = "") -> list[int]:
        """End those that match and wait; ask those that run to end. Which they were."""
        ...

    async def remove(self, number: int) -> None:
        """Forget a job that has ended, with its attempts and what it said."""
        ...

    async def remove_found(self, wanted: Filter) -> list[int]:
        """Forget those that match and have ended, the last to end first. Which they were.

        Not one transaction but a row of them: what is done stays done.
        """
        ...

    async def schedule_names(self, numbers: Sequence[int]) -> dict[int, str]:
        """What the schedules of jobs are called, by the numbers that jobs have of them."""
        ...


class Work(Protocol):
    async def register(self, profile: Profile, *, lease: timedelta) -> WorkerInfo:
        """Begin a lease."""
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

    async def tell(self, worker: str | int, order: Order, *, slots: int | None = None) -> int:
        """Give an order to the workers of a name, or to one by its number: how many there are."""
        ...

    async def turn(self, done: Sequence[JobDone], wish: Wish | None = None) -> Turn:
        """Finish what is done, and take what is wished, in one go where the database can.

        Only from a queue that is plain: not paused, limited or fair. After ``OutcomeUnknown``, what
        is done may be given again, and ``held`` tells what was taken.
        """
        ...

    async def claim(self, wish: Wish) -> Claims:
        """Take jobs to run, the most urgent first, under the limits of their queue and their own.

        After ``OutcomeUnknown``, ask ``held``.
        """
        ...

    def has_room(self, queues: Sequence[str]) -> None:
        """Tell others that jobs of these queues have ended, and the next may enter."""
        ...

    async def ready(self, queues: Sequence[str], tasks: Sequence[str]) -> list[ReadyShelf]:
        """Return the queues and shelves that have a job for a worker that knows these tasks."""
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

    async def note(self, job_id: int) -> ProgressNote | None:
        """How far a job says it is."""
        ...


class Upkeep(Protocol):
    """Whoever gives ``trust`` has the database's clock judged before anything is done by it."""

    async def dispatch(self, *, limit: int, trust: Trust | None = None) -> Dispatched:
        """Make due jobs ready, expire or hurry those that are late."""
        ...

    async def answer(self, *, limit: int) -> int:
        """End the steps that waited for something that has happened. How many."""
        ...

    async def sweep(self, *, limit: int) -> int:
        """The nets: free what waits behind nothing. How many were found."""
        ...

    async def hold_unknown(
        self, *, patience: timedelta, limit: int, trust: Trust | None = None
    ) -> int:
        """Set jobs aside whose task no living worker knows, so that they hide nobody."""
        ...

    async def free_unfit(self, *, limit: int) -> int:
        """Set those free that wait for a worker who lives now, knowing their task or another form.

        How many; as many as the limit: there are more.
        """
        ...

    async def take_back(
        self,
        judge: Judge,
        *,
        after: int,
        margin: timedelta,
        limit: int,
        trust: Trust | None = None,
    ) -> TakenBack:
        """Take jobs back from workers whose lease has expired, or was ended for them.

        By a clock that is not believed no lease has expired; one that was ended is over anyway.
        """
        ...

    async def make_days(self, *, trust: Trust | None = None) -> None:
        """Make room for the days to come."""
        ...

    async def prune(self, retention: Retention, *, limit: int, trust: Trust | None = None) -> int:
        """Forget what is old. How many rows went; as many as the limit: there are more."""
        ...

    async def progress(self) -> StoreProgress: ...


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
    @property
    def events(self) -> Events: ...
    @property
    def evidence(self) -> Evidence: ...
    @property
    def surroundings(self) -> Surroundings: ...
    @property
    def access(self) -> Access: ...
    @property
    def actor(self) -> Actor | None:
        """In whose name it is changed."""
        ...

    @property
    def who(self) -> str:
        """The name under which changes are recorded; empty without an actor."""
        ...

    def acting(self, actor: Actor, /) -> "Store":
        """The same store; what is changed through it is in the audit log, under this name."""
        ...

    def listen(self, listener: Callable[[str], None], /) -> None:
        """Call with a topic when something changed, here or in another process. Only a hint."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...
