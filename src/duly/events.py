"""What the engine says while it works: facts, not sentences.

The engine emits these and goes on; whoever listens (``duly.observe``, the dashboard's stream, a
test) decides what they mean, and owns the words. An event never carries a right or a duty: losing
one loses a line in a log, and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class TickFailed:
    """A service's tick ended with an error; the service rests, and tries again."""

    service: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class StoreLost:
    """The store stopped answering: told once, however many ticks fail before it answers again."""

    service: str  # the first one that noticed
    error: BaseException


@dataclass(frozen=True, slots=True)
class StoreRecovered:
    """The store answers again, every service whose ticks had failed."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class TickStalled:
    """A tick took longer than any tick may, and was cancelled."""

    service: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class ServiceRestarted:
    """A stalled tick did not even end when cancelled: it is left behind, a fresh one starts."""

    service: str


@dataclass(frozen=True, slots=True)
class ClockDistrusted:
    """The database's clock moved by ``jump`` more than ours did.

    No silent worker loses its jobs here for one lease. After a jump of more than a minute nothing
    is fired, made ready or expired either, until ``ClockTrusted``; nothing is deleted for longer.
    """

    jump: timedelta


@dataclass(frozen=True, slots=True)
class ClockTrusted:
    """The database's clock has gone steadily since it jumped: firing goes on."""


@dataclass(frozen=True, slots=True)
class SchedulesFired:
    """Due moments were written into the ledger, with their jobs. The oldest was this late."""

    fires: int
    jobs: int
    lateness: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesDeclared:
    """What the code of an app declares was written, as far as it is not so already."""

    app: str
    added: Sequence[str]
    changed: Sequence[str]
    renamed: Sequence[tuple[str, str]]
    paused: Sequence[str]  # they are not declared any more
    resumed: Sequence[str]
    drift: Mapping[str, Sequence[str]]  # what people have edited, and stays
    refused: Mapping[str, str]  # and why


@dataclass(frozen=True, slots=True)
class DeclarationSuperseded:
    """The code of this node is older than what another one has declared: nothing was written."""

    app: str
    since: datetime


@dataclass(frozen=True, slots=True)
class DeclaredSchedulesRemoved:
    """Schedules that the code of an app declares are gone: somebody has removed them."""

    app: str
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class ScheduleFaulted:
    """A schedule could not be decided. It stands still until somebody mends it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class EventsHandled:
    """Events were looked at: so many jobs were made for them, or moved, and so many called off."""

    events: int
    jobs: int
    withdrawn: int


@dataclass(frozen=True, slots=True)
class JobsReadied:
    """Jobs whose time has come may now be claimed."""

    count: int


@dataclass(frozen=True, slots=True)
class JobsExpired:
    """Jobs were not started before their deadline, and ended without running."""

    count: int


@dataclass(frozen=True, slots=True)
class JobsTakenBack:
    """Jobs of workers whose lease ended went back to their queues.

    The ``poisoned`` among them had taken too many workers with them, and ended as failed instead.
    """

    count: int
    poisoned: int


@dataclass(frozen=True, slots=True)
class WorkerRegistered:
    """This process has a lease, and may claim."""

    worker: int
    name: str
    quiet: bool = False  # it replaces a lease under which nothing ran


@dataclass(frozen=True, slots=True)
class WorkerFenced:
    """This worker is not sure of its lease any more: it stops its jobs and begins anew."""

    worker: int
    reason: str
    jobs: int  # how many ran


@dataclass(frozen=True, slots=True)
class FencingFailed:
    """Jobs still run here though the lease is over: nothing can stop them but the process's end.

    ``then`` is what the process does: stay, because it is somebody's application, end, or restart.
    """

    worker: int
    jobs: Sequence[int]
    then: Literal["stay", "end", "restart"]


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A worker on this machine is gone, and its lease was ended for it."""

    worker: int
    name: str


@dataclass(frozen=True, slots=True)
class LoopStalled:
    """The event loop has not turned for so long: some code on it blocks."""

    seconds: float


@dataclass(frozen=True, slots=True)
class InterpreterHeld:
    """No other thread could run for so long, because code of these jobs did not release the GIL."""

    seconds: float
    jobs: Sequence[tuple[int, str]]  # numbers and tasks; nobody, if that cannot be known


@dataclass(frozen=True, slots=True)
class JobStarted:
    job: int
    task: str
    attempt: int


@dataclass(frozen=True, slots=True)
class JobEnded:
    """An attempt is over. What follows is in the verdict's words.

    ``error`` is what went wrong, with its traceback; ``last``: nothing is tried any more.
    """

    job: int
    task: str
    outcome: str
    reason: str
    seconds: float
    error: str | None = None
    last: bool = False


@dataclass(frozen=True, slots=True)
class StopOverdue:
    """Jobs still run though a warm stop had so long for them: they are stopped now."""

    after: timedelta
    jobs: int


@dataclass(frozen=True, slots=True)
class FailedAfterCompletion:
    """A task raised after it had completed its job in a transaction: the job has succeeded."""

    job: int
    task: str
    error: str


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """What became of a job was not written: it is somebody else's by now."""

    job: int
    fence: int


@dataclass(frozen=True, slots=True)
class TimeoutIgnored:
    """A task runs longer than it may, in a thread: that can be told, and not stopped."""

    job: int
    task: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class JobStuck:
    """A job was asked to stop, and has not after its grace."""

    job: int
    task: str
    reason: str


@dataclass(frozen=True, slots=True)
class SettlementFailed:
    """What became of a job could not be stored as it was; it was stored without its result."""

    job: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class ChildNotStarted:
    """A child died, or never answered, before it had imported the application.

    Its job is given back. ``output`` is the end of what it wrote: mostly an import error.
    """

    target: str
    reason: str
    output: str


@dataclass(frozen=True, slots=True)
class ProcessReplaced:
    """A worker process of a supervisor ended, and another one took its place."""

    pid: int
    reason: str


@dataclass(frozen=True, slots=True)
class StoreOutgrown:
    """Somebody migrated the store to tables that this version cannot use: the node stops."""

    reason: str


@dataclass(frozen=True, slots=True)
class Pruned:
    """History older than its retention was removed."""

    rows: int


Event: TypeAlias = (
    TickFailed
    | StoreLost
    | StoreRecovered
    | TickStalled
    | ServiceRestarted
    | ClockDistrusted
    | ClockTrusted
    | SchedulesFired
    | SchedulesDeclared
    | DeclarationSuperseded
    | DeclaredSchedulesRemoved
    | ScheduleFaulted
    | EventsHandled
    | JobsReadied
    | JobsExpired
    | JobsTakenBack
    | WorkerRegistered
    | WorkerFenced
    | FencingFailed
    | WorkerDied
    | LoopStalled
    | InterpreterHeld
    | JobStarted
    | JobEnded
    | StopOverdue
    | FailedAfterCompletion
    | WriteRefused
    | TimeoutIgnored
    | JobStuck
    | SettlementFailed
    | ChildNotStarted
    | ProcessReplaced
    | StoreOutgrown
    | Pruned
)

# May be called from any thread.
Emit: TypeAlias = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """The listener where there is none."""
