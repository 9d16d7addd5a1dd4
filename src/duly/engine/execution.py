"""One attempt of a job: how it is stopped, and the outcome it comes to.

An attempt is stopped for one of four reasons, and the first one counts: it was cancelled, its
timeout has passed, the worker stops, or the worker may have lost its lease. A coroutine is
cancelled, a child process is asked and then killed, and a thread can only be asked.

A task may raise or return anything, also exceptions whose text cannot be made. The functions
``returned`` and ``raised`` turn all of it into an outcome that can be stored.
"""

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from duly import clock
from duly.durations import parse_duration
from duly.errors import PayloadError, Permanent, RetryAfter
from duly.model.job import Claimed
from duly.model.outcome import (
    Completed,
    Outcome,
    Raised,
    Returned,
    Stopped,
    Succeeded,
    TimedOut,
)
from duly.model.payload import Json
from duly.policy.redaction import redacted, redacted_for
from duly.policy.retry import Retry
from duly.registry.context import Context, ProcessGuard
from duly.registry.definition import Definition
from duly.registry.registry import JobTransaction

_ENGINE = f"{Path(__file__).parent}/"
_BUILTIN = f"{Path(__file__).parents[1]}/builtin/"


def returned(value: object, definition: Definition) -> Succeeded | Raised:
    """Return the outcome of a task that returned; a result that cannot be stored fails for good.

    A retry would do the work again and fail the same way.
    """
    if value is None or definition.keep_result is None:
        return Succeeded()
    try:
        return Succeeded(definition.signature.encode_result(value))
    except PayloadError as error:
        return raised(error, definition.retry, permanent=True)


def raised(error: BaseException, retry: Retry, *, permanent: bool = False) -> Raised:
    worded = _is_worded_by_a_built_in(error)
    return Raised(
        error="" if worded else type(error).__name__,
        message=redacted(_message(error)),
        traceback="" if worded else redacted(_traceback(error)),
        permanent=permanent or isinstance(error, Permanent),
        retry_after=_retry_after(error),
        retryable=_is_covered(error, retry),
    )


def without_secrets(found: Raised, args: str) -> Raised:
    """Remove the values of secret arguments from an error."""
    message, trace = redacted_for(args, found.message), redacted_for(args, found.traceback)
    return replace(found, message=message, traceback=trace)


def _is_covered(error: BaseException, retry: Retry) -> bool:
    if isinstance(error, RetryAfter) or not isinstance(error, Exception):
        return True  # RetryAfter asks for it; sys.exit() is nothing that on= could name
    return retry.covers(error)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001 - the task's own class
        return f"(its text cannot be made: {type(broken).__name__})"


def _traceback(error: BaseException) -> str:
    """Format the traceback, never with values of variables: they may be secrets."""
    try:
        return "".join(traceback.format_exception(_below_us(error)))
    except BaseException as broken:  # noqa: BLE001 - the task's own class
        return f"(it cannot be shown: {type(broken).__name__})"


def _is_worded_by_a_built_in(error: BaseException) -> bool:
    """Return whether a built-in task reports the failure of a program or server in its own words.

    The name of our exception and its traceback would look like a fault of duly.
    """
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None or not step.tb_frame.f_code.co_filename.startswith(_BUILTIN):
        return False
    return isinstance(error, Permanent) or type(error).__module__.startswith("duly.builtin")


def _below_us(error: BaseException) -> BaseException:
    """Remove duly's own frames from the traceback."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename.startswith(_ENGINE):
        step = step.tb_next
    return error if step is None else error.with_traceback(step)


def _retry_after(error: BaseException) -> timedelta | None:
    if not isinstance(error, RetryAfter):
        return None
    try:
        wait = _wait(error.delay)
    except Exception:  # noqa: BLE001 - no duration, a naive datetime, or a class of the application
        return None
    return max(timedelta(), wait)


def _wait(delay: str | timedelta | datetime) -> timedelta:
    return delay - clock.now() if isinstance(delay, datetime) else parse_duration(delay)


class StopReason(Enum):
    """The reason for which an execution is stopped; the first one counts."""

    CANCELLED = "cancelled"
    EXPIRED = "its time is over"
    INTERRUPTED = "its worker stops"
    FENCED = "its worker lost its lease"


class JournalPort(Protocol):
    """Receives the progress and log lines of jobs."""

    def note(self, job: Claimed, percent: float, *, message: str, meta: Json | None) -> None: ...
    def line(self, job: Claimed, at_us: int, *, level: str, text: str) -> None: ...


class ExecutionHost(Protocol):
    """The part of the runner that an execution uses."""

    @property
    def journal(self) -> JournalPort: ...
    def time(self) -> float: ...
    def transaction(self, run: "Execution", /) -> JobTransaction: ...


class GuardSource(Protocol):
    """Makes guards that kill process groups when this worker dies or its lease ends."""

    def guard(self) -> ProcessGuard: ...


class Execution:
    """One attempt under way; also the port of the task's context."""

    __slots__ = (
        "_host",
        "alarm",
        "began",
        "completion",
        "definition",
        "grace",
        "is_thread",
        "job",
        "knows",
        "place",
        "reason",
        "stopper",
        "thread",
        "timeout",
        "watchdog",
        "why",
    )

    def __init__(
        self, job: Claimed, definition: Definition, home: ExecutionHost, *, place: str
    ) -> None:
        self.job: Claimed = job
        self.definition: Definition = definition
        self._host = home
        self.place: str = place  # the name of the executor
        self.began: float = home.time()
        self.why: StopReason | None = None
        self.reason: str = ""
        self.stopper: Callable[[str], object] | None = None  # stops it, if anything can
        self.alarm: asyncio.TimerHandle | None = None
        self.grace: asyncio.TimerHandle | None = None
        self.is_thread: bool = False
        self.thread: int | None = None  # native id of its thread
        self.watchdog: GuardSource | None = None  # guards the processes that it starts
        self.knows: bool = False  # whether the task has checked and seen that it should stop
        # The transaction in which the task completes the job.
        self.completion: JobTransaction | None = None
        has_own = job.terms_text is not None and job.terms.are_own
        self.timeout: timedelta | None = job.terms.timeout if has_own else definition.timeout

    def stop(self, why: StopReason, reason: str = "") -> None:
        """Ask it to end, once for each reason; the first reason counts.

        Except the timeout of a thread, which is only a request: a later reason replaces it.
        """
        if why is self.why:
            return
        if self.why is None or (self.is_thread and self.why is StopReason.EXPIRED):
            self.why = why
            self.reason = reason or why.value
        if self.stopper is not None:
            self.stopper(self.reason)

    def outcome(self, found: Outcome | Completed) -> Outcome | Completed:
        """Return the outcome, given the reason why it was stopped, if it was."""
        if self.completion is not None and self.completion.completed:
            return Completed()
        if isinstance(found, Completed):
            return found
        match self.why:
            case None:
                return found
            case StopReason.CANCELLED:
                return Stopped(self.reason)
            case StopReason.EXPIRED:
                # A thread is only asked to stop; its own outcome still counts.
                return found if self.is_thread else TimedOut(self.timeout or timedelta())
            case StopReason.INTERRUPTED | StopReason.FENCED:
                # A success that did not see the request need not be repeated.
                ended = isinstance(found, Succeeded) and self.is_thread and not self.knows
                return found if ended else Returned(self.reason)

    # The port of the context:

    def cancelled(self) -> str | None:
        if self.why is None:
            return None
        self.knows = True
        return self.reason

    def progress(self, percent: float, message: str, meta: Json | None) -> None:
        self._host.journal.note(self.job, percent, message=message, meta=meta)

    def guard(self) -> ProcessGuard | None:
        return None if self.watchdog is None else self.watchdog.guard()

    def log_line(self, at_us: int, level: str, text: str) -> None:
        """Write a line to the job's log."""
        self._host.journal.line(self.job, at_us, level=level, text=text)

    def transaction(self, context: Context) -> Any:  # noqa: ANN401, ARG002 - as the port says
        if self.completion is None or not self.completion.completed:
            self.completion = self._host.transaction(self)
        return self.completion
