"""What the jobs do, the same for every contestant: nothing, and what measuring needs.

``nothing`` holds the first job of each process at a gate, with its whole event loop or thread,
until the clock starts. So a worker is measured when it is up, connected and has claimed its first
batch, however it is built. Behind the gate it counts itself, in 0.1 µs, where the harness can see
it without a question to the database, which would slow down whom it measures.
"""

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns

FOLDER = "BENCHMARK_FOLDER"
URL = "BENCHMARK_URL"

GATE = "gate"
READY = "ready"
MARKS = "marks"
TALLY = "tally"


def nothing(_argument: int | None = None) -> None:
    if _Process.count is None:
        _wait_at_the_gate()
        _Process.count = _shared_count()
    _Process.count[0] += 1


def mark(sent: int) -> None:
    """Write down when it started, beside when it was sent: one clock for the whole machine."""
    arrived = monotonic_ns()
    line = b"%d %d %d\n" % (sent, arrived, os.getpid())
    if _Process.marks is None:
        _Process.marks = os.open(_folder() / MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_Process.marks, line)


JOBS: dict[str, Callable[..., None]] = {"nothing": nothing, "mark": mark}


class _Process:
    """What this process has opened."""

    marks: int | None = None
    count: "memoryview[int] | None" = None


def _wait_at_the_gate() -> None:
    folder = _folder()
    (folder / f"{READY}.{os.getpid()}").touch()
    # A named pipe: opening it to read waits until somebody has opened it to write.
    os.close(os.open(folder / GATE, os.O_RDONLY))


def _shared_count() -> "memoryview[int]":
    path = _folder() / f"{TALLY}.{os.getpid()}"
    path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")


def _folder() -> Path:
    return Path(os.environ[FOLDER])
