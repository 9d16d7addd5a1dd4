"""What the jobs of the stories do: bear witness, take their time, and sometimes bring down a node.

Each job appends a line to a file outside the system when it begins and when it ends, by one write
that a kill can prevent but not tear. So the file says what really happened, and can be held against
what the store says.
"""

import asyncio
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

from duly import Duly, Step
from duly.clock import boottime, sleep
from duly.instants import to_us
from duly.model.limit import Limit
from duly.registry.context import current
from duly.registry.definition import define

MOST_OF_A_KEY = 2
PER_KEY = Limit("key:{key}", concurrency=MOST_OF_A_KEY)


async def nap(seconds: float = 0.3, again: float | None = None) -> None:
    """``again`` is how long it takes when it is not begun for the first time."""
    length = _length(seconds, again)
    witness("begin")
    try:
        await sleep(length)
    except asyncio.CancelledError:
        witness("interrupted")
        raise
    witness("end")


def doze(seconds: float = 0.3, again: float | None = None) -> None:
    """The same in a thread, which cannot be stopped."""
    end = boottime() + _length(seconds, again)
    witness("begin")
    while boottime() < end:
        signal.sigtimedwait([], min(0.05, max(0.0, end - boottime())))
    witness("end")


async def limited(key: str, seconds: float = 0.1) -> None:
    await nap(seconds)


async def quick(text: str = "") -> None:
    witness("end")


def poison() -> None:
    """Brings down whatever runs it."""
    witness("begin")
    os.kill(os.getpid(), signal.SIGKILL)


def witness(what: str) -> None:
    job = current().job
    write(what, schedule=job.schedule_id or 0, due=to_us(job.due_at), job=job.id, fence=job.fence)


def write(what: str, *, job: int, fence: int, schedule: int = 0, due: int = 0) -> None:
    member = os.environ.get("DULY_MEMBER", "0")
    at = to_us(datetime.now(UTC))  # noqa: TID251 - the truth, whatever this node's clock says
    append("", f"{what} {schedule} {due} {job} {at} {fence} {member}")


def append(suffix: str, line: str) -> None:
    name = os.environ.get("DULY_WITNESS", os.devnull) + suffix
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def whole_lines(file: Path) -> list[str]:
    """Return the lines; the last may be half written, where it reaches into a new page."""
    return file.read_text().rpartition("\n")[0].splitlines()


def _length(seconds: float, again: float | None) -> float:
    if again is None:
        return seconds
    lines = whole_lines(Path(os.environ["DULY_WITNESS"]))
    number = str(current().job.id)
    return again if any(line.split()[3] == number for line in lines) else seconds


_app = Duly(":memory:")
registry = _app.registry
for function in (nap, doze, quick, poison):
    registry.add(define(function))
registry.add(define(limited, limits=[PER_KEY]))


@_app.task
async def items(size: int) -> list[int]:
    await nap(0.1)
    return list(range(size))


@_app.task
async def piece(item: int) -> int:
    await nap(0.1)
    return 2 * item


@_app.task
async def total(found: list[int]) -> int:
    await nap(0.1)
    return sum(found)


@_app.flow
def errand(size: int) -> Step[int]:
    return total.step(piece.map(items.step(size).result).result)
