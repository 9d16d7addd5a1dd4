"""Values that the verbs of the store take and return, and the topics of its nudges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Protocol, TypeAlias

from duly.instants import to_us
from duly.model.claimed import Claimed
from duly.model.event import StoredEvent
from duly.model.fire import Cause, Outcome, StoredFire
from duly.model.flow import FlowInfo, FlowPlan, FlowProgress
from duly.model.job import Attempt, StoredJob, Waits
from duly.model.journal import ProgressNote
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.schedule import Plan, StoredSchedule
from duly.model.states import State
from duly.model.worker import Order, WorkerInfo
from duly.policy.firing import Facts, Firing
from duly.policy.verdict import Verdict

# A decision that is made while the store holds the rows of the schedule.
Decide = Callable[[Facts, datetime], Firing]

# Whether the time of the database's clock is trusted.
Trust: TypeAlias = Callable[[datetime], bool]

# Work that is overdue for longer means that no scheduler is running.
OVERDUE = timedelta(seconds=30)
# A cursor that is further in the future was left there by a clock that was ahead.
AHEAD = timedelta(minutes=5)

# Topics of notifications.
SCHEDULES = "schedules"  # a schedule may be due earlier than it was
JOBS = "jobs"  # a job may be due earlier than any was
EVENTS = "events"  # an event was emitted
READY = "ready"  # a job can be claimed: "ready:" and its queue
WORKERS = "workers"  # a worker gets an order, or one of its jobs is asked to end
QUEUES = "queues"  # a queue was paused, resumed, or its limits changed
LOG = "log"  # a job wrote log lines: "log:" and its number

# Where a worker looks. See the migration that makes the column.
SHELVES = range(6)
NORMAL, LOW, IDLE, CAREFUL, SUSPECT, CLOCK = SHELVES
NO_FLOOR = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringResult:
    """The result of one pass over the due schedules."""

    schedules: int = 0
    fires: int = 0
    jobs: int = 0
    later: int = 0  # … of which so many are to wait for their moment
    faults: Sequence[tuple[str, str]] = ()  # schedules that were set aside: name, reason
    lateness: timedelta = timedelta(0)  # of the most overdue
    rest: timedelta | None = None  # until the next is due; None: no schedule has a next moment
    distrusted: bool = False  # some were due, and the clock was not trusted
    settled: bool = False  # some are due still whose ledger has rows behind the cursor

    def __add__(self, later: "FiringResult") -> "FiringResult":
        """Return the combined result of two passes."""
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
    """The result of announcing the schedules that code declares."""

    since: datetime  # from when on the set that holds does
    superseded: bool = False  # a node holds a newer set: nothing was written
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
    """An operator's override of a limit, by its name or its template."""

    name: str
    concurrency: int | None
    rate: Rate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDefinitions:
    """The stored schedules, queues and limits that a file may define, by name."""

    schedules: Mapping[str, StoredSchedule]
    queues: Mapping[str, Queue]
    limits: Mapping[str, LaneRule]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStep:
    """A schedule as it should become; refused if the stored one is not as ``seen``."""

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
    dropped: bool = False  # the code's declaration applies again


Step: TypeAlias = ScheduleStep | QueueStep | LimitStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """The result of one pass over the waiting jobs."""

    ready: int = 0
    hurried: int = 0
    expired: int = 0
    rest: timedelta | None = None  # until the next job is due or late
    distrusted: bool = False  # some were due or late, and the clock was not trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """The result of one pass over lost jobs."""

    lost: int = 0
    poisoned: int = 0
    last: int = 0  # where the next page begins


class HeldJob(Protocol):
    """The facts that settling a job needs, from its claim or from its reclaim."""

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
    """The outcome of a job that ran; written only under the fencing token of its claim."""

    job: HeldJob
    verdict: Verdict
    outcome: str  # outcome in the attempt's record
    result: str | None = None
    keep_result: timedelta | None = None
    opens: FlowPlan | None = None  # it is a flow, and goes on with these steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Which settlements were written, and which were refused because the claim was lost."""

    kept: Sequence[int] = ()
    refused: Sequence[int] = ()
    before: Sequence[int] = ()  # those of the kept that had been written before
    freed: Sequence[str] = ()  # queues with jobs that became ready: unblocked or follow-up
    tells: frozenset[str] = frozenset()  # topics: flows ask jobs to end, or wait for events


class ReadyShelf(NamedTuple):
    """A shelf of a queue that has a job for a worker."""

    queue: str
    shelf: int
    among: tuple[str, ...] = ()  # where others' jobs wait too: the tasks of this worker that do


class JobDone(NamedTuple):
    """A job that succeeded and that no other job, key, schedule or limit waits for."""

    id: int
    fence: int
    result: str | None = None
    keep: int | None = None  # how long the result is kept, in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which jobs a worker wants to claim."""

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
    """Which finished jobs were written, and which jobs were claimed."""

    jobs: Sequence[Claimed] = ()
    kept: Sequence[int] = ()
    refused: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claimed jobs, and whether limits of the queue are why there are no more."""

    jobs: Sequence[Claimed] = ()
    full: bool = False  # the queue's concurrency or rate limit is reached
    opens_in: timedelta | None = None  # when its rate limit admits the next; None: when one ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The answer to a worker's heartbeat."""

    order: Order
    slots: int | None = None
    signals: Mapping[int, str] = field(default_factory=dict)  # jobs asked to end, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneInfo:
    """A limit under one rendered name, with the jobs in it."""

    name: str
    template: str
    concurrency: int | None
    rate: Rate | None
    running: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProgress:
    """Overdue work. The store is healthy if there is none, whatever processes run."""

    now: datetime
    oldest_unfired: datetime | None  # the due moment that has waited longest for a scheduler
    oldest_undispatched: datetime | None
    ready: int
    running: int
    faulty: Sequence[str] = ()  # schedules that cannot be fired until a person repairs them
    ahead: Sequence[str] = ()  # schedules whose cursor a clock that was ahead left in the future

    @property
    def unfired_for(self) -> timedelta:
        return self.now - self.oldest_unfired if self.oldest_unfired else timedelta(0)

    @property
    def problem(self) -> str | None:
        """Describe work that is overdue for so long that nobody can be working on it."""
        if self.oldest_unfired and self.now - self.oldest_unfired > OVERDUE:
            return (
                f"a run has been due since {self.oldest_unfired:%Y-%m-%d %H:%M:%S} UTC and has "
                "not been fired: is a scheduler running?"
            )
        if self.oldest_undispatched and self.now - self.oldest_undispatched > OVERDUE:
            return (
                f"a job has been due since {self.oldest_undispatched:%Y-%m-%d %H:%M:%S} UTC and "
                "has not been made ready: is a scheduler running?"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The retention of ended jobs, events and fires."""

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
    """Matching jobs, and the cursor to continue with.

    A page ends when it is full or has examined enough rows: it may be short or empty without being
    the last.
    """

    jobs: Sequence[StoredJob]
    after: str | None = None  # what the next page is asked for with; None: there is none
    searched_to: datetime | None = None  # what ended since then was looked at, if not everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed job, with what is needed to group similar failures."""

    id: int
    task: str
    queue: str
    ended_at: datetime
    reason: str
    error: str  # the end of it, no more than LONGEST_TAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The number of due moments with the same outcome."""

    outcome: Outcome
    cause: Cause | None
    state: State | None  # of the job that stands for them; None: there is none, or none any more
    moments: int
    late: int = 0  # so many of them were kept, and late


@dataclass(frozen=True, slots=True, kw_only=True)
class HourTally(Tally):
    """The number of due moments with the same outcome within an hour."""

    hour: datetime  # its beginning, a whole hour of UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKept:
    """Due moments of a schedule that were missed for the same reason: the last, and how many."""

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
    """Failed jobs of a task that no schedule made: the last, and how many."""

    task: str
    job_id: int
    ended_at: datetime
    jobs: int
    reason: str
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingKind:
    """Jobs that wait for the same kind of worker."""

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
    """The times at which a job started and ended."""

    state: State
    first_at: datetime | None = None  # when it was begun for the first time
    started_at: datetime | None = None  # when its last run began
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """Everything that is known about one schedule, read in one transaction."""

    now: datetime
    schedule: StoredSchedule
    skipped: frozenset[datetime]  # future runs that are skipped in advance
    fires: Sequence[StoredFire]  # the newest first
    runs: Mapping[int, RunTimes]  # of their jobs, by number
    declared: tuple[str, Plan] | None  # the app whose code declares it, and its plan there
    changes: Sequence[tuple[datetime, str, str]]  # when, who, what; the newest first


HappeningKind = Literal["moment", "began", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """A decided moment, a started job or an ended job."""

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
        """The timestamp and the number, as ``1700000000000000-42``."""
        return f"{to_us(self.at)}-{self.number}"


# Lengths are counted between these, in microseconds: 1, 2, 5, 10, … ms, and 5,000 s or more.
LENGTHS: tuple[int, ...] = tuple(step * 10**digits for digits in range(3, 10) for step in (1, 2, 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedStats:
    """The jobs that ended in a queue within a period, with histograms of durations.

    Of each histogram, the first number counts durations below the first of ``LENGTHS``, and each
    other one those that reached one more of them.
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
    """The number of jobs in a queue; a number above ``MOST_COUNTED`` means more than that."""

    queue: str
    ready: int = 0
    scheduled: int = 0
    blocked: int = 0
    running: int = 0
    oldest_ready_at: datetime | None = None  # of those that are claimed first
    whole: bool = True  # else there are so many that some scheduled or blocked were not counted


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTask:
    """A task of waiting jobs or active schedules, and what a worker needs for it."""

    task: str
    queue: str
    jobs: int = 0
    schedules: int = 0
    needs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """Jobs recorded as running whose worker has no lease or is known to be dead."""

    worker: int
    name: str  # empty: nothing else is known of the worker
    jobs: int
    ended_at: datetime | None  # when its lease ran out; None: it was ended, or is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class BadDay:
    """A day of a partitioned table that cannot take rows."""

    table: str
    day: datetime
    state: Literal["missing", "detached"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEventPage:
    """Matching events, the newest first, and the cursor to continue with."""

    events: Sequence[StoredEvent]
    after: str | None = None  # what the next page is asked for with; None: there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Reacted:
    """The result of one pass over new events."""

    events: int = 0  # that were looked at
    jobs: int = 0  # that were made, or moved
    skipped: int = 0  # reactions that were due and came to no job
    withdrawn: int = 0  # jobs that were cancelled by an event
    queues: Sequence[str] = ()  # where jobs can be claimed now
    later: int = 0  # jobs that are to wait for their moment
    more: bool = False  # other events have not been processed
    distrusted: bool = False  # there were events, and the clock was not trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result of replaying events to a schedule."""

    schedule: str
    events: int = 0
    jobs: Sequence[int] = ()  # that were made, or moved
    skipped: int = 0
    dry_run: bool = False  # it is what would be done


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """A page of jobs, and the names and the progress that a list shows beside each."""

    now: datetime
    page: Page
    schedules: Mapping[int, str]  # names, by number
    workers: Mapping[int, str]
    flows: Mapping[int, FlowProgress]  # of those jobs that are flows


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Everything that is known about one job, read in one transaction."""

    now: datetime
    job: StoredJob
    attempts: Sequence[Attempt] = ()  # that did not end it well
    workers: Sequence[WorkerInfo] = ()  # all that are remembered
    note: ProgressNote | None = None
    stopping: str | None = None  # why it was asked to stop, if it runs and was
    schedule: StoredSchedule | None = None  # that made it
    past_runs: Sequence[timedelta] = ()  # how long the last runs of its schedule took
    flow: FlowInfo | None = None  # its steps, if it is a flow
    inner_flows: Mapping[int, FlowProgress] = field(default_factory=dict)  # steps that are flows
    step_jobs: Sequence[StoredJob] = ()  # of the steps in progress, the first few
    parent: StoredJob | None = None  # the flow that it is a step of
    parent_flow: FlowInfo | None = None
    # Only of a job that waits:
    queue: Queue | None = None
    running_in_queue: int = 0
    ahead: int = 0
    limit: LaneInfo | None = None
    behind: StoredJob | None = None  # the run of its schedule that has to end first


@dataclass(frozen=True, slots=True)
class Reaction:
    """A schedule's reaction to an event: the ledger row, and the times of its job."""

    schedule: str
    fire: StoredFire
    run: RunTimes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """An event, and the reactions to it by the names of the schedules."""

    event: StoredEvent
    reactions: Sequence[Reaction]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """A page of events with the reactions to each."""

    events: Sequence[EventRecord]
    after: str | None = None
