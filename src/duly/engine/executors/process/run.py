"""A job that a child runs, as the worker sees it: output, timeout, memory, outcome.

Only the worker looks at the clock. When the timeout passes or the job is cancelled, its outcome is
decided at that moment, whatever the task does during its ``grace``: a task that catches
``SoftTimeout`` and returns normally has timed out, and one that ends early because it checked
``context.cancelled`` was stopped. The task is asked to end first; after its grace the process group
gets SIGTERM, and a little later SIGKILL.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from datetime import timedelta

from duly.engine.executors.process import kernel
from duly.engine.executors.process.frames import (
    BeginFrame,
    CancelFrame,
    CapturedLine,
    ChildSocket,
    CompletedFrame,
    EndFrame,
    ExpireFrame,
    LogFrame,
    OnLog,
    OnProgress,
    ProgressFrame,
    RunRequest,
    outcome_of,
)
from duly.engine.executors.process.kernel import KernelProcess
from duly.engine.executors.process.output import OutputLines, OutputPipe, Transcript
from duly.model.outcome import (
    Completed,
    Lost,
    Outcome,
    Raised,
    Returned,
    Stopped,
    TimedOut,
)
from duly.model.payload import Json

LONGEST_TERM_GRACE = timedelta(seconds=5)  # between SIGTERM and SIGKILL
MEMORY_CHECK_EVERY = timedelta(seconds=1)


class ProcessRun:
    def __init__(self, request: RunRequest, *, on_log: OnLog, on_progress: OnProgress) -> None:
        self.request = request
        self._loop = asyncio.get_running_loop()
        # Has a result if the run never starts.
        self.called_off: asyncio.Future[Outcome] = self._loop.create_future()
        self.outcome: asyncio.Future[Outcome | Completed] = self._loop.create_future()
        self._decided: Outcome | None = None
        self._begun = False
        self._transcript = Transcript(on_log)
        self._on_progress = on_progress
        self._progress: ProgressFrame | None = None
        self._streams = [OutputLines(level, self._transcript) for level in ("stdout", "stderr")]
        self._pipes: list[OutputPipe] = []
        self._timers: set[asyncio.TimerHandle] = set()
        self._process: KernelProcess | None = None
        self._child: ChildSocket | None = None

    def start(self, process: KernelProcess, child: ChildSocket) -> None:
        self._process, self._child = process, child
        for stream in self._streams:
            self._pipes.append(OutputPipe(stream.feed))
        child.send(BeginFrame(self.request), [pipe.writing for pipe in self._pipes])
        for pipe in self._pipes:
            pipe.release()
        timeout, limit = self.request.timeout, self.request.memory
        if timeout is not None:
            self._later(timeout, lambda: self._decide(TimedOut(timeout), ExpireFrame()))
        if limit is not None:
            self._later(MEMORY_CHECK_EVERY, lambda: self._check_memory(process, limit))

    def cancel(self, reason: str) -> None:
        if self._process is None:
            self.call_off(Stopped(reason))
        else:
            self._decide(Stopped(reason), CancelFrame(reason))

    def call_off(self, outcome: Outcome) -> None:
        """End a run that has not started."""
        if not self.called_off.done():
            self.called_off.set_result(outcome)

    def begun(self) -> None:
        self._begun = True

    def logged(self, line: LogFrame) -> None:
        self._transcript.add(CapturedLine(line.at_us, line.level, line.text))

    def progressed(self, progress: ProgressFrame) -> None:
        """Report only the last of many updates: a task may send thousands."""
        if self._progress is None:
            self._later(timedelta(seconds=0.1), self._report_progress)
        self._progress = progress

    def ended(self, ended: EndFrame) -> None:
        # A transaction that the task has committed counts, whatever outcome was decided before.
        complete = isinstance(ended, CompletedFrame)
        self._end(Completed() if complete else self._decided or outcome_of(ended))

    def died(self, how: str, *, killed_by_worker: bool) -> None:
        if self._decided is None and not self._begun:
            self._end(Returned())
        else:
            # A child that the worker killed itself is no evidence against the job.
            lost = Lost(reason=f"the process that ran it {how}", alone=killed_by_worker)
            self._end(self._decided or lost)

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for pipe in self._pipes:
            pipe.close()
        for stream in self._streams:
            stream.close()
        self._transcript.flush()
        self._report_progress()

    def _decide(self, outcome: Outcome, frame: CancelFrame | ExpireFrame) -> None:
        if self._decided is None and self._child is not None:
            self._decided = outcome
            self._child.send(frame)
            self._later(self.request.grace, self._terminate)

    def _terminate(self) -> None:
        self._signal(signal.SIGTERM)
        self._later(min(self.request.grace, LONGEST_TERM_GRACE), self._kill)

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _check_memory(self, process: KernelProcess, allowed: int) -> None:
        used = process.resident()
        if used <= allowed:
            self._later(MEMORY_CHECK_EVERY, lambda: self._check_memory(process, allowed))
            return
        too_much = f"used {kernel.shown(used)}, allowed {kernel.shown(allowed)}"
        self._decided = self._decided or Raised("MemoryLimit", too_much)
        self._kill()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send(number)

    def _report_progress(self) -> None:
        last, self._progress = self._progress, None
        if last is not None:
            # An error of the listener must not stop the run.
            with contextlib.suppress(Exception):
                meta = None if last.meta is None else Json(last.meta)
                self._on_progress(last.percent, last.message, meta)

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
