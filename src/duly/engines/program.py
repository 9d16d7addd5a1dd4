"""The program that runs one job where an engine starts it: ``python -m duly.engines.program``.

It imports the module that declares the task and runs the function with its context. Log records,
progress and the function's own output are lines on stdout; the outcome is written to a file.
SIGTERM asks the function to end: a coroutine is cancelled, ``SoftTimeout`` is raised in a plain
function.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import msgspec

from duly.app.tasks import Enqueueable
from duly.engine.executors.process.child import LogForwarder, die_with, write_whole_lines
from duly.engine.executors.process.child_job import (
    ChildJob,
    ChildRunner,
    TimeoutSignal,
    failed,
    kill_own_group,
)
from duly.engine.executors.process.frames import (
    EndFrame,
    FailedFrame,
    FromChild,
    MismatchFrame,
    RunRequest,
)
from duly.engines.report import REQUEST, fitted
from duly.errors import NotFound
from duly.policy.retry import Retry
from duly.registry.definition import Definition
from duly.registry.registry import Registry


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Runs one job. Started by an engine.")
    parser.add_argument("--module", required=True, help="the module that declares the task")
    parser.add_argument("--report", required=True, help="the file for the outcome; - for stdout")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="the size of the report")
    asked = parser.parse_args(arguments)
    request = msgspec.json.decode(_request(), type=RunRequest)
    write_whole_lines()
    _end_in_time(request)
    report = fitted(_run(asked.module, request), asked.most)
    if asked.report == "-":
        with os.fdopen(os.dup(1), "wb") as output:
            output.write(msgspec.json.encode(report) + b"\n")
    else:
        Path(asked.report).write_bytes(msgspec.json.encode(report))
    return 1 if isinstance(report, FailedFrame | MismatchFrame) else 0


def _request() -> str:
    """Return the request, from the environment or from stdin, which is then a lifeline."""
    given = os.environ.pop(REQUEST, None)
    if given is not None:
        return given
    line = sys.stdin.readline()
    threading.Thread(target=_end_with_stdin, name="duly-lifeline", daemon=True).start()
    if sys.platform == "linux":
        die_with(sys.stdin.fileno())
    return line


def _end_with_stdin() -> None:
    sys.stdin.read()
    kill_own_group()


def _end_in_time(request: RunRequest) -> None:
    """End this process after its timeout, also if no worker of duly is there to ask for it.

    A worker asks first and waits for the grace; so this waits for two.
    """
    if request.timeout is None:
        return
    limit = request.timeout + 2 * request.grace
    timer = threading.Timer(limit.total_seconds(), _give_up)
    timer.daemon = True
    timer.start()


def _give_up() -> None:
    try:
        kill_own_group()
    finally:
        os._exit(128 + signal.SIGKILL)  # the first process of a container ignores its own SIGKILL


def _run(module: str, request: RunRequest) -> EndFrame:
    timeout = TimeoutSignal()
    lines = FrameLines(timeout)
    job = ChildJob(request, lines, output=(os.dup(1), os.dup(2)))
    signal.signal(signal.SIGTERM, lambda *_: _stop(job))
    logs = LogForwarder()
    registry = Registry()
    try:
        registry.add(definition_in(module, request.task))
    except Exception as error:  # noqa: BLE001 - the module is the application's
        return failed(error, Retry())
    with logs.of(job):
        return ChildRunner(registry, timeout).run(job)


def _stop(job: ChildJob) -> None:
    # In a thread: the signal handler may have interrupted the code that holds the job's lock.
    def stop() -> None:
        job.cancel("the engine ends it")
        job.expire()

    threading.Thread(target=stop, daemon=True).start()


def definition_in(module: str, task: str) -> Definition:
    """Import the module and return its task of that name."""
    for value in vars(import_module(module)).values():
        if isinstance(value, Enqueueable) and task in value.definition.names:
            return value.definition
    raise NotFound(
        f'the module {module}, as it is installed here, declares no task "{task}": deploy the same '
        "version of the application to workers and engine"
    )


class FrameLines:
    """Writes frames as lines of JSON to stdout, between the lines of the function itself."""

    def __init__(self, shield: TimeoutSignal) -> None:
        self._output = os.dup(1)
        self._shield = shield
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def is_ours(self) -> bool:
        return os.getpid() == self._process

    def send(self, frame: FromChild) -> None:
        data = memoryview(msgspec.json.encode(frame) + b"\n")
        with self._shield, self._lock:
            while data:
                data = data[os.write(self._output, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
