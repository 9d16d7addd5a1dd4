"""The events that the engine emits while it works: data, not sentences.

The engine emits them and goes on; a listener (``duly.observe``, the dashboard's stream, a test)
interprets and words them. Nothing may depend on an event for correctness: losing one loses a line
in a log, and nothing else.
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
    """The store stopped answering; emitted once, however many ticks fail before it answers."""

    service: str  # the first one that noticed
    error: BaseException


@dataclass(frozen=True, slots=True)
class StoreRecovered:
    """The store answers again, for every service whose ticks had failed."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class TickStalled:
    """A tick took longer than any tick may, and was cancelled."""

    service: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class ServiceRestarted:
    """A stalled tick did not end when it was cancelled: it is abandoned, and a new one starts."""

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
    """The database's clock has been steady since it jumped: firing resumes."""


@dataclass(frozen=True, slots=True)
class SchedulesFired:
    """Due moments were written into the ledger, with their jobs. The oldest was this late."""

    fires: int
    jobs: int
    lateness: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesDeclared:
    """The schedules that an app declares in code were written, where the store differed."""

    app: str
    added: Sequence[str]
    changed: Sequence[str]
    renamed: Sequence[tuple[str, str]]
    paused: Sequence[str]  # they are not declared any more
    resumed: Sequence[str]
    drift: Mapping[str, Sequence[str]]  # fields that people have edited, which stay
    refused: Mapping[str, str]  # and why


@dataclass(frozen=True, slots=True)
class DeclarationSuperseded:
    """This node's code is older than the declarations of another node: nothing was written."""

    app: str
    since: datetime


@dataclass(frozen=True, slots=True)
class DeclaredSchedulesRemoved:
    """Schedules that the code of an app declares were removed from the store."""

    app: str
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class ScheduleFaulted:
    """A schedule could not be decided. It fires nothing until it is repaired."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class EventsHandled:
    """Events were handled: the number of jobs that were made or moved for them, and cancelled."""

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
    """This process has a lease and may claim jobs."""

    worker: int
    name: str
    quiet: bool = False  # it replaces a lease under which nothing ran


@dataclass(frozen=True, slots=True)
class WorkerFenced:
    """This worker may have lost its lease: it stops its jobs and registers again."""

    worker: int
    reason: str
    jobs: int  # how many ran


@dataclass(frozen=True, slots=True)
class FencingFailed:
    """Jobs still run here after the lease ended; only the end of the process can stop them.

    ``then`` is what the process does: stay (a user's application), end, or restart.
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
    """The event loop was blocked for this long by some code that runs on it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class InterpreterHeld:
    """No other thread could run for this long, because code of these jobs held the GIL."""

    seconds: float
    jobs: Sequence[tuple[int, str]]  # numbers and tasks; empty if unknown


@dataclass(frozen=True, slots=True)
class JobStarted:
    job: int
    task: str
    attempt: int


@dataclass(frozen=True, slots=True)
class JobEnded:
    """An attempt has ended; ``reason`` says what follows.

    ``error`` is the error with its traceback; ``last`` means that there is no further attempt.
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
    """Jobs still run after the grace period of a warm stop: they are stopped now."""

    after: timedelta
    jobs: int


@dataclass(frozen=True, slots=True)
class FailedAfterCompletion:
    """A task raised after it had completed its job in a transaction; the job has succeeded."""

    job: int
    task: str
    error: str


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """The result of a job was not written: the job belongs to another worker by now."""

    job: int
    fence: int


@dataclass(frozen=True, slots=True)
class TimeoutIgnored:
    """A task in a thread exceeds its timeout: this is reported, but a thread cannot be stopped."""

    job: int
    task: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class JobStuck:
    """A job was asked to stop, and still runs after its grace period."""

    job: int
    task: str
    reason: str


@dataclass(frozen=True, slots=True)
class SettlementFailed:
    """The result of a job could not be stored as it was; the job was stored without its result."""

    job: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class ChildNotStarted:
    """A child process died, or never answered, before it had imported the application.

    Its job is given back. ``output`` is the end of what the child wrote, usually an import error.
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
    """The store was migrated to a schema that this version cannot use: the node stops."""

    reason: str


@dataclass(frozen=True, slots=True)
class AlertSent:
    """A message about problems, or a ping about a run, was accepted by its receiver."""

    destination: str
    title: str


@dataclass(frozen=True, slots=True)
class AlertFailed:
    """A message or a ping could not be sent; it is tried again."""

    destination: str
    error: str


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
    | AlertSent
    | AlertFailed
    | Pruned
)

# May be called from any thread.
Emit: TypeAlias = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """Ignore an event: the default listener."""
