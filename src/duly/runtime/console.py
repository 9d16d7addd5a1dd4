"""Console output of a worker: one line for each event that an operator should know.

Most events are only for metrics, and print nothing here. A line is text, or with
``log_format = "json"`` an object with the message, its level and time, and the facts of the event.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from shlex import quote
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from duly import clock, events
from duly.durations import about
from duly.engine.timekeeper import ORDINARY
from duly.events import Emit, EngineEvent
from duly.model.job import is_built_in
from duly.policy.redaction import json_text, one_line, printable, redacted, redacted_for, some
from duly.registry.context import current_or_none
from duly.rules import show_duration
from duly.settings import Settings

Level: TypeAlias = Literal["debug", "info", "warning", "error"]

LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error")
MOST_NAMED = 10
MOST_LISTED = 100  # names or numbers in one fact of a JSON line


class Say(Protocol):
    """Writes a message; its level and facts only where the log is JSON."""

    def __call__(self, text: str, /, **facts: object) -> None: ...


def log_writer(settings: Settings, write: Callable[[str], None]) -> Say:
    """Return a function that writes messages in the format of the settings."""

    def say(text: str, /, **facts: object) -> None:
        write(json_line(text, **facts) if settings.log_format == "json" else text)

    return say


def json_line(message: str, **facts: object) -> str:
    """Return a message as a JSON object in one line; facts that are None are left out."""
    known = {name: _plain(value) for name, value in facts.items() if value is not None}
    time = clock.now().isoformat(timespec="microseconds")
    return json_text({"time": time, "level": "info", "logger": "duly", "message": message} | known)


def sentence(event: EngineEvent, *, verbose: bool = False, level: Level = "info") -> str | None:
    """Return the line to print for an event, or None; ``verbose`` has a line for every job.

    Events of services are printed from ``level`` on.
    """
    say = _NOTABLE.get(type(event)) or _JOBS.get(type(event))
    found = level_of(event)
    quiet = LEVELS.index(found) < LEVELS.index(level) and not (verbose and type(event) in _JOBS)
    return None if say is None or quiet else say(event)


def event_printer(settings: Settings, say: Say) -> Emit:
    """Return a function that prints events as the settings say."""
    level, is_json = cast(Level, settings.log_level), settings.log_format == "json"

    def tell(event: EngineEvent) -> None:
        said = sentence(event, verbose=settings.verbose, level=level)
        if said and is_json:
            facts = {one.name: getattr(event, one.name) for one in fields(event)}
            # The lines below the first one, a traceback or output, are facts of the event.
            first, name = said.partition("\n")[0], type(event).__name__
            say(first, level=level_of(event), event=name, **facts)
        elif said:
            say(printable(said))

    return tell


def _plain(value: object) -> object:
    """Return a fact in JSON types: a duration in seconds, anything unknown as text."""
    match value:
        case bool() | int() | float() | str():
            return value
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {str(name): _plain(inner) for name, inner in [*value.items()][:MOST_LISTED]}
        case Sequence():
            return [_plain(inner) for inner in value[:MOST_LISTED]]
        case _:
            return str(value)


def shows_jobs(settings: Settings) -> bool:
    return settings.verbose or settings.log_level == "debug"


def level_of(event: EngineEvent) -> Level:
    """Return the log level of an event; a warning by default."""
    if isinstance(event, events.SchedulesDeclared) and (event.drift or event.refused):
        return "warning"
    if isinstance(event, events.JobEnded) and event.error is not None:
        return "error" if event.last else "warning"
    if isinstance(event, events.WorkerRegistered) and event.quiet:
        return "debug"
    return _LEVELS.get(type(event), "warning")


def job_count(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _distrusted(event: events.ClockDistrusted) -> str:
    how = "forward" if event.jump > timedelta(0) else "back"
    jumped = f"the database's clock was set {how} by {about(abs(event.jump))}"
    if abs(event.jump) <= ORDINARY.tolerance:
        return (
            f"{jumped}: jobs of silent workers are not taken back until a full lease has passed "
            "since"
        )
    return f"{jumped}: nothing is fired, made ready or deleted until the clock is stable again"


def _fenced(event: events.WorkerFenced) -> str | None:
    """Return the line for a fenced worker; nothing if it had no jobs to stop."""
    if not event.jobs:
        return None
    return f"lease lost ({event.reason}): stopping {job_count(event.jobs)}"


def _unfenced(event: events.FencingFailed) -> str:
    numbers = ", ".join(map(str, event.jobs[:MOST_NAMED]))
    return (
        f"{job_count(len(event.jobs))} cannot be stopped although the lease has expired "
        f"({numbers}): {_THEN[event.then]}"
    )


def _held(event: events.InterpreterHeld) -> str:
    named = [f"job {job} {task}" for job, task in event.jobs[:MOST_NAMED]]
    return (
        f"{' or '.join(named) or 'something'} held the interpreter (the GIL) for "
        f"{event.seconds:.0f} s: nothing else ran in this process, and the lease was not renewed; "
        'such a task needs executor="process"'
    )


_THEN: Final = {
    "stay": "they may run twice, here and on another worker",
    "end": "this process ends",
    "restart": "this process restarts",
}


def _taken_back(event: events.JobsTakenBack) -> str:
    poisoned = (
        (f"; {event.poisoned} of them failed, because they crashed their worker too often")
        if event.poisoned
        else ""
    )
    return f"took {job_count(event.count)} back from dead workers{poisoned}"


def _not_started(event: events.ChildNotStarted) -> str:
    said = event.output.strip()
    return f"no child process could be started for {event.target}: {event.reason}" + (
        f"\n{said}" if said else ""
    )


def _declared(event: events.SchedulesDeclared) -> str | None:
    parts = [
        _named("added", event.added),
        _named("changed", event.changed),
        _named("renamed", [f"{old} to {new}" for old, new in event.renamed]),
        _named("paused, no longer declared:", event.paused),
        _named("resumed", event.resumed),
        *(
            f"{name}: {', '.join(what)} edited by hand and kept"
            for name, what in event.drift.items()
        ),
        *(f"{name} not written: {why}" for name, why in event.refused.items()),
    ]
    said = "; ".join(filter(None, parts))
    return f"schedules of {event.app}: {said}" if said else None


def _named(what: str, names: Sequence[str]) -> str:
    return f"{what} {some(names, MOST_NAMED)}" if names else ""


def _rounded(length: timedelta) -> str:
    """Show a duration rounded to seconds, at least one second."""
    return show_duration(timedelta(seconds=max(round(length.total_seconds()), 1)))


def _ended(event: events.JobEnded) -> str:
    took = show_duration(timedelta(milliseconds=round(event.seconds * 1_000)))
    said = f"job {event.job} {event.task}: {event.reason} ({took})"
    # Below the message, which the reason has, there is where it happened.
    _, _, steps = (event.error or "").partition("\n\n")
    lines = "\n".join(map(one_line, steps.splitlines()))
    return f"{said}\n{lines}".rstrip()


_NOTABLE: Final[dict[type[Any], Callable[[Any], str | None]]] = {
    events.TickFailed: lambda e: f"{e.service}: {type(e.error).__name__}: {e.error}",
    events.StoreLost: lambda e: f"the database does not answer ({e.service}): {e.error}; retrying",
    events.StoreRecovered: lambda e: f"the database answers again, after {_rounded(e.after)}",
    events.TickStalled: lambda e: (
        f"{e.service}: not finished after {show_duration(e.after)}; trying again"
    ),
    events.ServiceRestarted: lambda e: f"{e.service}: did not respond and was restarted",
    events.ClockDistrusted: _distrusted,
    events.ClockTrusted: lambda _: "the database's clock is stable again: firing continues",
    events.SchedulesDeclared: _declared,
    events.DeclarationSuperseded: lambda e: (
        f"this node has older schedules of {e.app} than another node; they were not applied"
    ),
    events.DeclaredSchedulesRemoved: lambda e: (
        f"declared in {e.app} and {_named('removed by hand:', e.names)}; "
        f"to bring it back: duly schedules take-back {quote(e.names[0])}"
    ),
    events.ScheduleFaulted: lambda e: f'schedule "{e.schedule}" cannot be fired: {e.reason}',
    events.JobsTakenBack: _taken_back,
    events.RemoteJobEnded: lambda e: (
        f"ended {e.key}, the remote job of job {e.job}, which had ended before it"
    ),
    events.RemoteJobsUnseen: lambda e: (
        f"{e.task}: remote jobs of ended jobs may be left: {e.problem}; asking again"
    ),
    events.WorkerRegistered: lambda e: f"worker {e.name} registered as number {e.worker}",
    events.WorkerFenced: _fenced,
    events.FencingFailed: _unfenced,
    events.StopOverdue: lambda e: (
        f"not finished within {show_duration(e.after)}: stopping {job_count(e.jobs)}; another "
        "worker runs the stopped jobs again"
    ),
    events.WorkerDied: lambda e: f"worker {e.name} ({e.worker}) on this machine has died",
    events.InterpreterHeld: _held,
    events.LoopStalled: lambda e: f"the event loop has been blocked for {e.seconds:.0f} s",
    events.WriteRefused: lambda e: f"write refused: this worker does not hold job {e.job} any more",
    events.TimeoutIgnored: lambda e: (
        f"job {e.job} {e.task}: still running after {show_duration(e.after)}, in a thread, which "
        "cannot be stopped"
    ),
    events.FailedAfterCompletion: lambda e: (
        f"job {e.job} {e.task}: failed after its transaction had completed it, so it stays "
        f"succeeded: {e.error}"
    ),
    events.JobStuck: lambda e: (
        f"stuck: job {e.job} {e.task} was asked to stop ({e.reason}) and has not"
    ),
    events.SettlementFailed: lambda e: f"job {e.job}: its outcome could not be stored: {e.error}",
    events.ChildNotStarted: _not_started,
    events.ProcessReplaced: lambda e: f"process {e.pid} {e.reason}; it was replaced",
    events.AlertSent: lambda e: f"alert sent to {e.destination}: {e.title}",
    events.AlertFailed: lambda e: f"alert to {e.destination} not sent: {e.error}",
    events.StoreOutgrown: lambda e: f"{e.reason}; finishing the running jobs, then stopping",
}

_JOBS: Final[dict[type[Any], Callable[[Any], str]]] = {
    events.JobStarted: lambda e: f"job {e.job} {e.task}: started, attempt {e.attempt}",
    events.JobEnded: _ended,
}

# An error needs action by an operator; normal events are info or debug.
_LEVELS: Final[dict[type[Any], Level]] = {
    events.JobStarted: "debug",
    events.JobEnded: "debug",
    events.WorkerRegistered: "info",
    events.SchedulesDeclared: "info",
    events.ClockTrusted: "info",
    events.ProcessReplaced: "info",
    events.TickFailed: "error",
    events.StoreLost: "error",
    events.StoreRecovered: "info",
    events.AlertSent: "info",
    events.ScheduleFaulted: "error",
    events.FencingFailed: "error",
    events.SettlementFailed: "error",
    events.StoreOutgrown: "error",
    events.ChildNotStarted: "error",
}


@contextmanager
def json_records(settings: Settings, say: Say) -> Iterator[None]:
    """Write the records of all loggers as JSON, if the settings ask for it.

    An application that has configured logging itself keeps its own handlers, and gets none of ours.
    """
    root = logging.getLogger()
    if settings.log_format != "json" or root.handlers:
        yield
        return
    with _handling(root, _JsonHandler(say, verbose=shows_jobs(settings))):
        yield


class _JsonHandler(logging.Handler):
    """Writes log records as JSON lines, with the job that made them; records of tasks if asked."""

    def __init__(self, say: Say, *, verbose: bool) -> None:
        super().__init__()
        self._say = say
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("duly.job") and not self._verbose:
            return
        try:
            context = current_or_none()
            job = None if context is None else context.claimed
            text, facts = self.format(record), {}
            if job is not None:
                text = redacted_for(job.args, text)
                facts = {
                    "job": job.id,
                    "task": job.called,
                    "attempt": job.attempt,
                    "queue": job.queue,
                    "schedule": job.schedule,
                    "worker": job.worker,
                }
            level = record.levelname.lower()
            self._say(redacted(text), level=level, logger=record.name, **facts)
        except Exception:  # noqa: BLE001 - as every handler of logging: it is no fault of the task
            self.handleError(record)


@contextmanager
def _handling(logger: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def job_log(say: Callable[[str], None] | None) -> Iterator[None]:
    handler = logging.NullHandler() if say is None else _JobLogHandler(say)
    with _handling(logging.getLogger("duly.job"), handler):
        yield


class _JobLogHandler(logging.Handler):
    """Prints each log line of a job, as ``job 42 backup: 3 files written``."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        context = current_or_none()
        if context is None or logging.getLogger().handlers:
            return
        try:
            text = printable(redacted(self.format(record)))
            job = context.job
            called = job.title if job.title and is_built_in(job.task) else job.task
            who = printable(f"job {job.id} {called}")
            self._say("\n".join(f"{who}: {line}" for line in text.split("\n")))
        except Exception:  # noqa: BLE001 - as every handler of logging: it is no fault of the task
            self.handleError(record)
