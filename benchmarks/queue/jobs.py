"""What the jobs do, the same for every contestant: nothing, and what measuring needs.

``nothing`` holds the first job of each process at a gate, with its whole event loop or thread,
until the clock starts. So a worker is measured when it is up, connected and has claimed its first
batch, however it is built. Behind the gate it counts itself, in 0.1 µs, where the harness can see
it without a question to the database, which would slow down whom it measures.
"""

import mmap
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic_ns

FOLDER = "BENCHMARK_FOLDER"
URL = "BENCHMARK_URL"

GATE = "gate"
READY = "ready"
MARKS = "marks"
TALLY = "tally"


# The schedules are due in turn, each of them every five seconds.
SCHEDULES = 1_000
PERIOD = timedelta(seconds=5)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def first_moment(number: int, *, ahead: timedelta) -> datetime:
    """Return a moment at which a schedule is due, so far from now at least."""
    number_of_periods = (_now() + ahead - EPOCH) // PERIOD + 1
    return EPOCH + number_of_periods * PERIOD + number * PERIOD / SCHEDULES


def nothing(_argument: int | None = None) -> None:
    if _Process.count is None:
        _wait_at_the_gate()
        _Process.count = _shared_count()
    _Process.count[0] += 1


def mark(sent: int) -> None:
    """Write down when it started, beside when it was sent: one clock for the whole machine."""
    _note(sent, monotonic_ns())


def late(number: int) -> None:
    """Write down how late the run of a schedule starts."""
    behind = (_now() - EPOCH - number * PERIOD / SCHEDULES) % PERIOD
    now = monotonic_ns()
    _note(now - behind // timedelta(microseconds=1) * 1_000, now)


JOBS: dict[str, Callable[..., None]] = {"nothing": nothing, "mark": mark}


def _note(sent: int, arrived: int) -> None:
    line = b"%d %d %d\n" % (sent, arrived, os.getpid())
    if _Process.marks is None:
        _Process.marks = os.open(_folder() / MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_Process.marks, line)


class _Process:
    """What this process has opened."""

    marks: int | None = None
    count: "memoryview[int] | None" = None


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - a peer's process does not import duly


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
