"""The events that the engine emits while it works: data, not sentences.

The engine emits them and goes on; a listener (``duly.runtime.console``, a test)
interprets and words them. Nothing may depend on an event for correctness: losing one loses a line
in a log, and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, dataclass_transform


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class EngineEvent:
    """A fact that the engine emits; each kind is a frozen dataclass."""

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        dataclass(frozen=True, kw_only=kw_only)(cls)


class TickFailed(EngineEvent):
    """A service's tick ended with an error; the service rests, and tries again."""

    service: str
    error: BaseException


class StoreLost(EngineEvent):
    """The database stopped answering; emitted once, however many ticks fail before it answers."""

    service: str  # the first one that noticed
    error: BaseException


class StoreRecovered(EngineEvent):
    """The database answers again, for every service whose ticks had failed."""

    after: timedelta


class TickStalled(EngineEvent):
    """A tick took longer than any tick may, and was cancelled."""

    service: str
    after: timedelta


class ServiceRestarted(EngineEvent):
    """A stalled tick did not end when it was cancelled: it is abandoned, and a new one starts."""

    service: str


class ClockDistrusted(EngineEvent):
    """The database's clock moved by ``jump`` more than ours did.

    No silent worker loses its jobs here for one lease. After a jump of more than a minute nothing
    is fired, made ready or expired either, until ``ClockTrusted``; nothing is deleted for longer.
    """

    jump: timedelta


class ClockTrusted(EngineEvent):
    """The database's clock has been steady since it jumped: firing resumes."""


class SchedulesFired(EngineEvent):
    """Due runs were written into the ledger, with their jobs. The oldest was this late."""

    fires: int
    jobs: int
    lateness: timedelta


class SchedulesDeclared(EngineEvent, kw_only=True):
    """The schedules that an app declares in code were written, where the database differed."""

    app: str
    added: Sequence[str]
    changed: Sequence[str]
    renamed: Sequence[tuple[str, str]]
    paused: Sequence[str]  # they are not declared any more
    resumed: Sequence[str]
    drift: Mapping[str, Sequence[str]]  # fields that people have edited, which stay
    refused: Mapping[str, str]  # and why


class DeclarationSuperseded(EngineEvent):
    """This node's code is older than the declarations of another node: nothing was written."""

    app: str
    since: datetime


class DeclaredSchedulesRemoved(EngineEvent):
    """Schedules that the code of an app declares were removed from the database."""

    app: str
    names: Sequence[str]


class ScheduleFaulted(EngineEvent):
    """A schedule could not be decided. It fires nothing until it is repaired."""

    schedule: str
    reason: str


class EventsHandled(EngineEvent):
    """Events were handled: the number of jobs that were made or moved for them, and cancelled."""

    events: int
    jobs: int
    withdrawn: int


class JobsReadied(EngineEvent):
    """Jobs whose time has come may now be claimed."""

    count: int


class JobsExpired(EngineEvent):
    """Jobs were not started before their deadline, and ended without running."""

    count: int


class JobsTakenBack(EngineEvent):
    """Jobs of workers whose lease ended went back to their queues.

    The ``poisoned`` among them had taken too many workers with them, and ended as failed instead.
    """

    count: int
    poisoned: int


class RemoteJobEnded(EngineEvent):
    """A remote job was found whose job had ended while no worker held it, and was ended."""

    job: int
    key: str


class RemoteJobsUnseen(EngineEvent):
    """An engine did not say whether it has remote jobs of ended jobs; it is asked again."""

    task: str
    problem: str


class WorkerRegistered(EngineEvent):
    """This process has a lease and may claim jobs."""

    worker: int
    name: str
    quiet: bool = False  # it replaces a lease under which nothing ran


class WorkerFenced(EngineEvent):
    """This worker may have lost its lease: it stops its jobs and registers again."""

    worker: int
    reason: str
    jobs: int  # how many ran


class FencingFailed(EngineEvent):
    """Jobs still run here after the lease ended; only the end of the process can stop them.

    ``then`` is what the process does: stay (a user's application), end, or restart.
    """

    worker: int
    jobs: Sequence[int]
    then: Literal["stay", "end", "restart"]


class WorkerDied(EngineEvent):
    """A worker on this machine is gone, and its lease was ended for it."""

    worker: int
    name: str


class LoopStalled(EngineEvent):
    """The event loop was blocked for this long by some code that runs on it."""

    seconds: float


class InterpreterHeld(EngineEvent):
    """No other thread could run for this long, because code of these jobs held the GIL."""

    seconds: float
    jobs: Sequence[tuple[int, str]]  # numbers and tasks; empty if unknown


class JobStarted(EngineEvent):
    """A worker has started an attempt of a job."""

    job: int
    task: str
    attempt: int
    queue: str
    schedule: str | None
    worker: int


class JobEnded(EngineEvent):
    """An attempt has ended; ``reason`` says what follows.

    ``error`` is the error with its traceback; ``last`` means that there is no further attempt.
    """

    job: int
    task: str
    outcome: str
    reason: str
    seconds: float
    queue: str
    schedule: str | None
    worker: int
    attempt: int
    error: str | None = None
    last: bool = False


class StopOverdue(EngineEvent):
    """Jobs still run after the grace period of a warm stop: they are stopped now."""

    after: timedelta
    jobs: int


class FailedAfterCompletion(EngineEvent):
    """A task raised after it had completed its job in a transaction; the job has succeeded."""

    job: int
    task: str
    error: str


class WriteRefused(EngineEvent):
    """The result of a job was not written: the job belongs to another worker by now."""

    job: int
    fence: int


class TimeoutIgnored(EngineEvent):
    """A task in a thread exceeds its timeout: this is reported, but a thread cannot be stopped."""

    job: int
    task: str
    after: timedelta


class JobStuck(EngineEvent):
    """A job was asked to stop, and still runs after its grace period."""

    job: int
    task: str
    reason: str


class SettlementFailed(EngineEvent):
    """The result of a job could not be stored as it was; the job was stored without its result."""

    job: int
    error: BaseException


class ChildNotStarted(EngineEvent):
    """A child process died, or never answered, before it had imported the application.

    Its job is given back. ``output`` is the end of what the child wrote, usually an import error.
    """

    target: str
    reason: str
    output: str


class ProcessReplaced(EngineEvent):
    """A worker process of a supervisor ended, and another one took its place."""

    pid: int
    reason: str


class StoreOutgrown(EngineEvent):
    """The database was migrated to a schema that this version cannot use: the node stops."""

    reason: str


class AlertSent(EngineEvent):
    """A message about problems, or a ping about a run, was accepted by its receiver."""

    destination: str
    title: str


class AlertFailed(EngineEvent):
    """A message or a ping could not be sent; it is tried again."""

    destination: str
    error: str


class Pruned(EngineEvent):
    """History older than its retention was removed."""

    rows: int


# May be called from any thread.
Emit: TypeAlias = Callable[[EngineEvent], None]


def ignore_event(event: EngineEvent) -> None:
    """Ignore an event: the default listener."""
