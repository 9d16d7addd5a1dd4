"""The entry point of a child process: ``python -m duly.engine.executors.process.child …``.

The main thread imports the application and runs the jobs, because signals arrive there and many
libraries require it. Another thread reads what the worker sends.

A child must not outlive its worker, nor the worker's lease: a job that still runs while another
worker repeats it is the one thing that must never happen. So there are four ways to end it:

* The kernel kills the child when its parent dies (Linux).
* The kernel kills the whole process group, with every process the task has started, when the
  worker's end of the lifeline is closed (Linux). This happens while the worker is still exiting:
  once the worker is gone from the process table, so are its children.
* The child kills its group when the socket is closed. That works everywhere, if the child can run.
* The child kills its group when the worker's lease ends and was not renewed: a worker that is
  stopped or frozen is not dead, and other workers repeat its jobs nevertheless.
"""

import argparse
import contextlib
import fcntl
import io
import logging
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from duly import clock
from duly.clock import boottime
from duly.engine.executors.process.child_job import (
    ChildJob,
    ChildRunner,
    TimeoutSignal,
    WorkerSocket,
    kill_own_group,
)
from duly.engine.executors.process.frames import (
    BeginFrame,
    BegunFrame,
    CancelFrame,
    ExpireFrame,
    LeaseFrame,
    LoadFrame,
    LogFrame,
    ReadyFrame,
    ToChild,
)
from duly.engine.executors.process.output import LONGEST_LINE, MOST_PER_JOB
from duly.engine.process_identity import die_with_parent
from duly.errors import SoftTimeout
from duly.instants import to_us
from duly.model.payload import storable
from duly.registry.app_loading import load

_F_SETSIG = 10  # fcntl has no name for it
_EXIT_SECONDS = 0.5  # for the exit handlers of the application
_LONGEST_LEVEL = 30


def main(arguments: Sequence[str]) -> None:
    asked = _read(arguments)
    die_with_worker(asked.parent, lifeline=asked.lifeline)
    _take_signals()
    write_whole_lines()
    timeout = TimeoutSignal()
    worker = WorkerSocket(asked.socket, shield=timeout)
    frames = worker.frames()
    sys.path[:] = _path(frames)
    # Before the import of the application, so that its basicConfig() adds no second handler.
    logs = LogForwarder()
    runner = ChildRunner(load(asked.target), timeout)
    worker.send(ReadyFrame())
    _run_jobs(runner, JobInbox(worker, frames), worker=worker, logs=logs)


def _run_jobs(
    runner: ChildRunner, inbox: "JobInbox", *, worker: WorkerSocket, logs: "LogForwarder"
) -> None:
    for job in inbox:
        worker.send(BegunFrame())
        with logs.of(job):
            ended = runner.run(job)
        if not worker.is_ours:
            # The task has forked, and this is the fork, returning from the task.
            os._exit(os.EX_SOFTWARE)
        inbox.clear()
        worker.send(ended)


def _path(frames: Iterator[tuple[ToChild, list[int]]]) -> Sequence[str]:
    first, _ = next(frames, (None, None))
    if not isinstance(first, LoadFrame):
        sys.exit("the worker has closed the connection")
    return first.path


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Runs the jobs of a worker. Started by the worker."
    )
    parser.add_argument("--parent", required=True)
    parser.add_argument("--socket", required=True, type=int)
    parser.add_argument("--lifeline", required=True, type=int)
    parser.add_argument("target")
    return parser.parse_args(arguments)


def _take_signals() -> None:
    """Restore the default handlers: signals that the worker ignores or blocks are inherited."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def write_whole_lines() -> None:
    # A pipe is block buffered: without this, output would be seen only when the job ends.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def die_with_worker(parent: str, *, lifeline: int) -> None:
    """Have this process and its group killed with the parent; exit if that is gone already."""
    die_with_parent(parent)
    if sys.platform == "linux":
        die_with(lifeline)
    if _is_closed(lifeline):
        os._exit(os.EX_UNAVAILABLE)


def die_with(lifeline: int) -> None:
    """Have the kernel send SIGKILL to the group when the other end of the lifeline is closed.

    Nothing is ever written to it, so closing is the only event.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _is_closed(lifeline: int) -> bool:
    readable, _, _ = select.select([lifeline], [], [], 0)
    return bool(readable)


class JobInbox:
    """Receives jobs and the cancels, timeouts and leases of the worker, in a thread."""

    def __init__(self, worker: WorkerSocket, frames: Iterable[tuple[ToChild, list[int]]]) -> None:
        self._worker = worker
        self._frames = frames
        self._waiting: queue.SimpleQueue[ChildJob | None] = queue.SimpleQueue()
        self._current: ChildJob | None = None
        self._free = threading.Event()
        self._free.set()
        self._until: float | None = None  # end of the worker's lease, once known
        worker.patience = self._left
        # A daemon, so that this thread does not keep the child alive.
        threading.Thread(target=self._listen, name="duly-inbox", daemon=True).start()

    def __iter__(self) -> Iterator[ChildJob]:
        """Yield the jobs, one at a time, until the worker closes the socket."""
        while (job := self._waiting.get()) is not None:
            yield job

    def clear(self) -> None:
        self._free.set()

    def _listen(self) -> None:
        for frame, descriptors in self._frames:
            self._receive(frame, descriptors)
        self._waiting.put(None)
        if self._free.is_set():
            threading.Event().wait(_EXIT_SECONDS)
        kill_own_group()

    def _receive(self, frame: ToChild, descriptors: list[int]) -> None:
        match frame:
            case BeginFrame(request=request):
                self._free.clear()
                self._current = ChildJob(request, self._worker, output=descriptors)
                self._waiting.put(self._current)
            case CancelFrame(reason=reason):
                if self._current is not None:
                    self._current.cancel(reason)
            case ExpireFrame():
                if self._current is not None:
                    self._current.expire()
            case LeaseFrame(until=until):
                self._until = max(until, self._until or until)
            case LoadFrame():
                pass
            case _:
                assert_never(frame)

    def _left(self) -> float | None:
        """Return how long the job may run without news; None if there is no limit or no job."""
        if self._until is None or self._free.is_set():
            return None
        return max(0.0, self._until - boottime())


class LogForwarder(logging.Handler):
    """Sends log records to the worker; outside of a job and in forks, writes them to stderr."""

    def __init__(self) -> None:
        super().__init__()
        self._job: ChildJob | None = None
        self._room = MOST_PER_JOB
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[self])

    @contextlib.contextmanager
    def of(self, job: ChildJob) -> Iterator[None]:
        root = logging.getLogger()
        if self not in root.handlers:  # the application has configured logging itself
            root.addHandler(self)
        self._job = job
        self._room = MOST_PER_JOB
        try:
            yield
        finally:
            self._job = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = storable(self.format(record), LONGEST_LINE)
            level = storable(record.levelname.lower(), _LONGEST_LEVEL)
            if self._job is None or not self._job.is_heard:
                print(f"{level}: {text}", file=sys.stderr)  # noqa: T201
            else:
                self._send(LogFrame(to_us(clock.now()), level, text), self._job)
        except SoftTimeout:
            raise
        except Exception:  # noqa: BLE001 – a record that cannot be written must not fail the task
            self.handleError(record)

    def _send(self, line: LogFrame, job: ChildJob) -> None:
        """Send as much as the worker keeps, and one line more so that it notices the excess."""
        if self._room >= 0:
            self._room -= len(line.text) + 1
            job.log(line)


if __name__ == "__main__":
    main(sys.argv[1:])
