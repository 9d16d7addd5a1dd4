"""Where a child starts: ``python -m duly.engine.executors.process.child …``.

Its main thread imports the application and runs the jobs, because that is where signals arrive and
where many libraries want to be. Another thread listens to the worker.
"""

import argparse
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence

from duly.engine.executors.process import leash
from duly.engine.executors.process.alarm import TimeoutSignal
from duly.engine.executors.process.bench import ChildRunner
from duly.engine.executors.process.desk import JobInbox
from duly.engine.executors.process.frames import BegunFrame, LoadFrame, ReadyFrame, ToChild
from duly.engine.executors.process.line import WorkerSocket
from duly.engine.executors.process.records import LogForwarder
from duly.registry.app_loading import load


def main(arguments: Sequence[str]) -> None:
    asked = _read(arguments)
    leash.bind(asked.parent, lifeline=asked.lifeline)
    _take_signals()
    _write_whole_lines()
    alarm = TimeoutSignal()
    line = WorkerSocket(asked.socket, shield=alarm)
    frames = line.frames()
    sys.path[:] = _path(frames)
    # Before the application is imported: one that calls basicConfig() then adds nothing to it.
    records = LogForwarder()
    runner = ChildRunner(load(asked.target), alarm)
    line.send(ReadyFrame())
    _work(runner, JobInbox(line, frames), line=line, records=records)


def _work(
    runner: ChildRunner, inbox: JobInbox, *, line: WorkerSocket, records: LogForwarder
) -> None:
    for assignment in inbox:
        line.send(BegunFrame())
        with records.of(assignment):
            ended = runner.work_on(assignment)
        if not line.is_ours:
            # The task has forked, and its fork has come out of it by the same way.
            os._exit(os.EX_SOFTWARE)
        inbox.clear()
        line.send(ended)


def _path(frames: Iterator[tuple[ToChild, list[int]]]) -> Sequence[str]:
    first, _ = next(frames, (None, None))
    if not isinstance(first, LoadFrame):
        sys.exit("the worker has hung up")
    return first.path


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Started by a worker, for itself.")
    parser.add_argument("--parent", required=True)
    parser.add_argument("--socket", required=True, type=int)
    parser.add_argument("--lifeline", required=True, type=int)
    parser.add_argument("target")
    return parser.parse_args(arguments)


def _take_signals() -> None:
    """As a program has them that nobody started: what the worker ignores or blocks is inherited."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _write_whole_lines() -> None:
    # A pipe is no terminal: without this, what a job prints would be seen when it ends.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


if __name__ == "__main__":
    main(sys.argv[1:])
