"""A job under way, as the worker sees it: what it writes, how long it may go on, what it came to.

Only the worker looks at the clock. When a job's time is over, or somebody cancels it, its outcome
is settled there and then: it is what it will be called, whatever the task does in its ``grace``. So
a task that catches ``SoftTimeout`` and returns in good order has timed out even so, and one that
ends early because ``context.cancelled`` says so was stopped. Then it is asked; after its grace the
group is sent SIGTERM, and a little later SIGKILL.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import assert_never

from duly.engine.executors.process import limits
from duly.engine.executors.process.body import KernelProcess
from duly.engine.executors.process.capture import OutputLines, OutputPipe, Transcript
from duly.engine.executors.process.frames import (
    BeginFrame,
    CancelFrame,
    CompletedFrame,
    DoneFrame,
    EndFrame,
    ExpireFrame,
    FailedFrame,
    LogFrame,
    MismatchFrame,
    ProgressFrame,
)
from duly.engine.executors.process.orders import CapturedLine, OnLog, OnProgress, RunRequest
from duly.engine.executors.process.wire import ChildSocket
from duly.model.outcome import (
    Completed,
    Lost,
    Mismatched,
    Outcome,
    Raised,
    Returned,
    Stopped,
    Succeeded,
    TimedOut,
)
from duly.model.payload import Json

LONGEST_LAST_CHANCE = timedelta(seconds=5)  # between SIGTERM and SIGKILL
WEIGHED_EVERY = timedelta(seconds=1)


class ProcessRun:
    def __init__(self, order: RunRequest, *, on_log: OnLog, on_progress: OnProgress) -> None:
        self.order = order
        self._loop = asyncio.get_running_loop()
        self.called_off: asyncio.Future[Outcome] = self._loop.create_future()  # before it began
        self.outcome: asyncio.Future[Outcome | Completed] = self._loop.create_future()
        self._settled: Outcome | None = None
        self._begun = False
        self._transcript = Transcript(on_log)
        self._on_progress = on_progress
        self._progress: ProgressFrame | None = None
        self._streams = [OutputLines(level, self._transcript) for level in ("stdout", "stderr")]
        self._pipes: list[OutputPipe] = []
        self._timers: set[asyncio.TimerHandle] = set()
        self._body: KernelProcess | None = None
        self._wire: ChildSocket | None = None

    def start(self, body: KernelProcess, wire: ChildSocket) -> None:
        self._body, self._wire = body, wire
        for stream in self._streams:
            self._pipes.append(OutputPipe(stream.feed))
        wire.send(BeginFrame(self.order), [pipe.writing for pipe in self._pipes])
        for pipe in self._pipes:
            pipe.release()
        timeout, memory = self.order.timeout, self.order.memory
        if timeout is not None:
            self._later(timeout, lambda: self._settle(TimedOut(timeout), ExpireFrame()))
        if memory is not None:
            self._later(WEIGHED_EVERY, lambda: self._weigh(body, memory))

    def cancel(self, reason: str) -> None:
        if self._body is None:
            self.call_off(Stopped(reason))
        else:
            self._settle(Stopped(reason), CancelFrame(reason))

    def call_off(self, outcome: Outcome) -> None:
        """It has not begun, and need not."""
        if not self.called_off.done():
            self.called_off.set_result(outcome)

    def begun(self) -> None:
        self._begun = True

    def logged(self, line: LogFrame) -> None:
        self._transcript.add(CapturedLine(line.at_us, line.level, line.text))

    def progressed(self, progress: ProgressFrame) -> None:
        """Only the last of many in a moment is told: a task may say it thousands of times."""
        if self._progress is None:
            self._later(timedelta(seconds=0.1), self._tell_progress)
        self._progress = progress

    def ended(self, ended: EndFrame) -> None:
        # What the task has committed is so, whatever was to become of it.
        complete = isinstance(ended, CompletedFrame)
        self._end(Completed() if complete else self._settled or _outcome(ended))

    def died(self, how: str, *, given_up: bool) -> None:
        if self._settled is None and not self._begun:
            self._end(Returned())
        else:
            # If it was ended for another reason, that does not speak against the job.
            lost = Lost(reason=f"the process that ran it {how}", alone=given_up)
            self._end(self._settled or lost)

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for pipe in self._pipes:
            pipe.close()
        for stream in self._streams:
            stream.close()
        self._transcript.flush()
        self._tell_progress()

    def _settle(self, outcome: Outcome, frame: CancelFrame | ExpireFrame) -> None:
        if self._settled is None and self._wire is not None:
            self._settled = outcome
            self._wire.send(frame)
            self._later(self.order.grace, self._terminate)

    def _terminate(self) -> None:
        self._signal(signal.SIGTERM)
        self._later(min(self.order.grace, LONGEST_LAST_CHANCE), self._kill)

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _weigh(self, body: KernelProcess, allowed: int) -> None:
        used = body.resident()
        if used <= allowed:
            self._later(WEIGHED_EVERY, lambda: self._weigh(body, allowed))
            return
        too_much = f"used {limits.shown(used)}, allowed {limits.shown(allowed)}"
        self._settled = self._settled or Raised("MemoryLimit", too_much)
        self._kill()

    def _signal(self, number: signal.Signals) -> None:
        if self._body is not None:
            self._body.send(number)

    def _tell_progress(self) -> None:
        told, self._progress = self._progress, None
        if told is not None:
            # A listener that cannot write must not stop what it listens to.
            with contextlib.suppress(Exception):
                meta = None if told.meta is None else Json(told.meta)
                self._on_progress(told.percent, told.message, meta)

    def _end(self, outcome: Outcome | Completed) -> None:
        self.close()
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def _later(self, wait: timedelta, act: Callable[[], None]) -> None:
        def fire() -> None:
            self._timers.discard(timer)
            act()

        timer = self._loop.call_later(wait.total_seconds(), fire)
        self._timers.add(timer)


def _outcome(ended: EndFrame) -> Outcome | Completed:
    match ended:
        case DoneFrame(result=result):
            return Succeeded(None if result is None else Json(result))
        case FailedFrame():
            wait = ended.retry_after_us
            return Raised(
                ended.error,
                ended.message,
                ended.traceback,
                permanent=ended.permanent,
                retry_after=None if wait is None else timedelta(microseconds=wait),
                retryable=ended.retryable,
            )
        case CompletedFrame():
            return Completed()
        case MismatchFrame():
            return Mismatched(ended.reason, ended.signature)
        case _:
            assert_never(ended)
