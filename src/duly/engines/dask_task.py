"""The part of the Dask engine that runs in a Dask worker.

A thread cannot be stopped, so the job runs in a process of its own: it can be killed, and its
output is only its own. The process ends with the Dask worker.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from hashlib import blake2s
from pathlib import Path
from typing import IO, Any, Final, TypedDict
from uuid import uuid4

from duly.clock import boottime
from duly.engine.executors.process.output import LONGEST_LINE, MOST_PER_JOB
from duly.engines.report import failure, program

TOPICS: Final = 64
LOOK_EVERY: Final = 0.2  # seconds
LINGER: Final = 1.0  # seconds for the end of the output: a stray process may hold the pipe


class Message(TypedDict):
    """A message to the waiting duly worker."""

    key: str
    run: str  # Dask may run a task again, on another worker
    number: int
    lines: list[str]
    ended: bool


def topic_of(key: str) -> str:
    return f"duly-{blake2s(key.encode()).digest()[0] % TOPICS}"


def run_program(key: str, *, module: str, request: str, timeout: float | None, grace: float) -> str:
    """Run the job in a process and return its report; end it if Dask cancels the task."""
    from distributed import get_worker  # noqa: PLC0415 - only Dask workers run this

    worker = get_worker()
    speaker = _Speaker(key, lambda message: worker.log_event(topic_of(key), message))
    deadline = None if timeout is None else boottime() + timeout + grace

    def must_end() -> bool:
        return _is_dropped(worker, key) or (deadline is not None and boottime() > deadline)

    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "DASK_SCHEDULER_ADDRESS": worker.scheduler.address,  # for Client() in the task
    }
    speaker.say()
    try:
        with tempfile.TemporaryDirectory(prefix="duly-") as folder:
            report = Path(folder, "report")
            with _started(
                module, request, report=report, environment=environment, grace=grace
            ) as process:
                reader = threading.Thread(
                    target=_read, args=(process.stdout, speaker), name="duly-output", daemon=True
                )
                reader.start()
                while process.poll() is None and not must_end():
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(LOOK_EVERY)
                    speaker.flush()
            reader.join(LINGER)
            return report.read_text() if report.exists() else _without_report(process.returncode)
    finally:
        speaker.say(ended=True)


def _is_dropped(worker: Any, key: str) -> bool:  # noqa: ANN401 - Dask's Worker
    """Return whether nobody waits for the task: it was cancelled, or the worker closes."""
    state = worker.state.tasks.get(key)
    closing = worker.status.name in ("closing", "closed", "failed")
    return closing or state is None or state.state == "cancelled"


@contextlib.contextmanager
def _started(
    module: str, request: str, *, report: Path, environment: dict[str, str], grace: float
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the program; at the end of the block, end it and everything that it has started."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        program(module, str(report), python=sys.executable),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with process:
        try:
            with contextlib.suppress(BrokenPipeError):
                _pipe(process.stdin).write(f"{request}\n".encode())
                _pipe(process.stdin).flush()
            yield process
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(grace)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - for the type checker
    return pipe


def _without_report(status: int) -> str:
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with {status}"
    return failure(f"the process that ran it on Dask {how} and left no report")


def _read(output: IO[bytes], speaker: "_Speaker") -> None:
    room = MOST_PER_JOB
    with contextlib.suppress(ValueError):  # it was closed
        for line in iter(lambda: output.readline(LONGEST_LINE), b""):
            if room > 0:  # all of it is read, because a program blocks when its pipe is full
                room -= len(line)
                text = line.decode(errors="replace").rstrip("\n")
                speaker.add(text if room > 0 else "… more was written than is kept")


class _Speaker:
    """Sends messages about one run, with several lines in one."""

    def __init__(self, key: str, send: Callable[[Message], None]) -> None:
        self._key = key
        self._send = send
        self._run = uuid4().hex
        self._number = 0
        self._lines: list[str] = []
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        with self._lock:
            self._lines.append(line)

    def flush(self) -> None:
        if self._lines:
            self.say()

    def say(self, *, ended: bool = False) -> None:
        with self._lock:
            lines, self._lines = self._lines, []
            self._number += 1
        self._send(
            Message(key=self._key, run=self._run, number=self._number, lines=lines, ended=ended)
        )
