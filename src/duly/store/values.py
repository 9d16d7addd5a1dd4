"""Values that the verbs of the store take and return, and the topics of its nudges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from duly.model.flow import FlowPlan
from duly.model.job import Claimed, StoredJob
from duly.model.limit import Queue, Rate
from duly.model.schedule import Plan, StoredSchedule
from duly.model.states import State
from duly.policy.decision import Facts, Firing
from duly.policy.verdict import SUSPECT as SUSPECT_CRASHES
from duly.policy.verdict import Verdict

# A decision that is made while the store holds the rows of the schedule.
Decide = Callable[[Facts, datetime], Firing]

# Whether the time of the database's clock is trusted.
Trust: TypeAlias = Callable[[datetime], bool]


# Topics of notifications.
SCHEDULES = "schedules"  # a schedule may be due earlier than it was
JOBS = "jobs"  # a job may be due earlier than any was
EVENTS = "events"  # an event was emitted
READY = "ready"  # a job can be claimed: "ready:" and its queue
FIRED = "fired"  # a job on the shelf CLOCK can be claimed: "fired:" and its queue
WORKERS = "workers"  # a worker gets an order, or one of its jobs is asked to end
LOST = "lost"  # leases may have expired; told only inside a process
QUEUES = "queues"  # a queue was paused, resumed, or its limits changed
LOG = "log"  # a job wrote log lines: "log:" and its number

# Where a worker looks. See the migration that makes the column.
SHELVES = range(6)
NORMAL, LOW, IDLE, CAREFUL, SUSPECT, CLOCK = SHELVES
NO_FLOOR = -(2**63)


class LimitRule(NamedTuple):
    """An operator's override of a limit, by its name or its template."""

    name: str
    concurrency: int | None
    rate: Rate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDefinitions:
    """The stored schedules, queues and limits that a file may define, by name."""

    schedules: Mapping[str, StoredSchedule]
    queues: Mapping[str, Queue]
    limits: Mapping[str, LimitRule]


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
    seen: LimitRule | None
    rule: LimitRule
    dropped: bool = False  # the code's declaration applies again


Step: TypeAlias = ScheduleStep | QueueStep | LimitStep


# The reason of a claimed job whose own process is not ready yet.
NOT_BEGUN: Final = "waits for a process of its own"


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
    isolates: bool = False  # the worker runs jobs that crashed before in processes of their own
    worker_name: str = ""  # empty: nothing is known of the worker any more
    has_ended: bool = False  # the worker did not fall silent: it is known to have ended
    reason: str = ""

    @property
    def alone(self) -> bool:
        """Return whether the job had crashed before, and ran in a process of its own."""
        return self.isolates and self.crashes >= SUSPECT_CRASHES

    @property
    def has_begun(self) -> bool:
        """Return whether the job may have begun when its worker was lost."""
        return self.reason != NOT_BEGUN


# A job that is settled: from its claim, from its reclaim, or reported by another system.
HeldJob: TypeAlias = Claimed | LostJob | StoredJob


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
    """The settlements that were written, and those refused because the claim was lost."""

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
class ClaimRequest:
    """The jobs that a worker asks to claim."""

    worker: int
    queue: str
    tasks: Sequence[str]
    limit: int
    shelf: int = NORMAL
    floor: int = NO_FLOOR  # nothing below this rank is looked for
    among: Sequence[str] = ()  # where others' jobs wait too: those of the tasks that are there
    after: str = ""  # on a fair queue: the tenant that was served last
    free: Mapping[str, int] = field(default_factory=dict)  # resources that are not in use


# Returns the claim of an idle worker of this process after a fire; None if it cannot run the task.
Offer: TypeAlias = Callable[[Plan], ClaimRequest | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAndClaimed:
    """The finished jobs that were written or refused, and the jobs that were claimed."""

    jobs: Sequence[Claimed] = ()
    kept: Sequence[int] = ()
    refused: Sequence[int] = ()
    unsettled: Sequence[Settlement] = ()  # not written: ``settle`` has to, as others wait for them


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claimed jobs, and whether limits of the queue are why there are no more."""

    jobs: Sequence[Claimed] = ()
    full: bool = False  # the queue's concurrency or rate limit is reached
    opens_in: timedelta | None = None  # when its rate limit admits the next; None: when one ends


Judge = Callable[[LostJob, datetime], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """The times at which a job started and ended."""

    state: State
    first_at: datetime | None = None  # when it was begun for the first time
    started_at: datetime | None = None  # when its last run began
    ended_at: datetime | None = None

    @property
    def took(self) -> timedelta | None:
        """The duration of the last run; None if it has not ended."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at
