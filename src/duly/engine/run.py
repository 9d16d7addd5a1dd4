"""An attempt under way: one job, run here, and how it is stopped.

An attempt is stopped for one of four reasons, and the first one counts: it was cancelled, its time
is over, the worker stops, or the worker is not sure of its lease any more. What can be done about
it depends on what runs it: a coroutine is cancelled, a child process is told and then killed, and a
thread can only be asked.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Any, Protocol

from duly.model.claimed import Claimed
from duly.model.outcome import (
    Completed,
    Outcome,
    Returned,
    Stopped,
    Succeeded,
    TimedOut,
)
from duly.model.payload import Json
from duly.registry.context import Context, ProcessGuard
from duly.registry.definition import Definition
from duly.registry.registry import JobTransaction


class StopReason(Enum):
    CANCELLED = "cancelled"
    EXPIRED = "its time is over"
    INTERRUPTED = "its worker stops"
    FENCED = "its worker lost its lease"


class JournalPort(Protocol):
    """Who writes down what jobs say."""

    def note(self, job: Claimed, percent: float, *, message: str, meta: Json | None) -> None: ...
    def line(self, job: Claimed, at_us: int, *, level: str, text: str) -> None: ...


class ExecutionHost(Protocol):
    """Where an attempt runs."""

    @property
    def journal(self) -> JournalPort: ...
    def time(self) -> float: ...
    def transaction(self, run: "Execution", /) -> JobTransaction: ...


class GuardSource(Protocol):
    """Who kills process groups when this worker dies or its lease ends."""

    def guard(self) -> ProcessGuard: ...


class Execution:
    """Also the port through which the task's context reaches further."""

    __slots__ = (
        "_lazy",
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
        self.job = job
        self.definition = definition
        self._lazy = home
        self.place = place  # the name of the executor
        self.began = home.time()
        self.why: StopReason | None = None
        self.reason = ""
        self.stopper: Callable[[str], object] | None = None  # what makes it end, if anything does
        self.alarm: asyncio.TimerHandle | None = None
        self.grace: asyncio.TimerHandle | None = None
        self.is_thread = False
        self.thread: int | None = None  # the native number of the thread that runs it
        self.watchdog: GuardSource | None = None  # who guards what it starts
        self.knows = False  # whether the task has seen that it should stop
        self.completion: JobTransaction | None = None  # the transaction in which it ends itself
        self.timeout = job.terms.timeout if job.terms_text else definition.timeout

    def stop(self, why: StopReason, reason: str = "") -> None:
        """Ask it to end, once for each reason; the first one is the one that counts.

        Except that a thread's time-out is only a word: whatever comes behind it counts instead.
        """
        if why is self.why:
            return
        if self.why is None or (self.is_thread and self.why is StopReason.EXPIRED):
            self.why = why
            self.reason = reason or why.value
        if self.stopper is not None:
            self.stopper(self.reason)

    def outcome(self, found: Outcome | Completed) -> Outcome | Completed:
        """What it came to, seen together with why it was stopped, if it was."""
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
                # A thread is only told; what it comes to in the end still counts.
                return found if self.is_thread else TimedOut(self.timeout or timedelta())
            case StopReason.INTERRUPTED | StopReason.FENCED:
                # What came to a good end without knowing need not be done again.
                ended = isinstance(found, Succeeded) and self.is_thread and not self.knows
                return found if ended else Returned(self.reason)

    # The port of the context.

    def cancelled(self) -> str | None:
        if self.why is None:
            return None
        self.knows = True
        return self.reason

    def progress(self, percent: float, message: str, meta: Json | None) -> None:
        self._lazy.journal.note(self.job, percent, message=message, meta=meta)

    def guard(self) -> ProcessGuard | None:
        return None if self.watchdog is None else self.watchdog.guard()

    def said(self, at_us: int, level: str, text: str) -> None:
        """Something was logged while it is current."""
        self._lazy.journal.line(self.job, at_us, level=level, text=text)

    def transaction(self, context: Context) -> Any:  # noqa: ANN401, ARG002 - as the port says
        if self.completion is None or not self.completion.completed:
            self.completion = self._lazy.transaction(self)
        return self.completion
