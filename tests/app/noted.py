"""An app whose tasks write down each run in a file: what happened, whatever the database says."""

import os
from asyncio import CancelledError
from pathlib import Path

from duly import Duly
from duly.clock import sleep
from tests.app.shop import is_up

duly = Duly()


def note(*words: object) -> None:
    """Append a line, in one write that no other process can split."""
    file = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(file)


def notes(about: str) -> list[str]:
    """Return what was noted about one thing, in order."""
    lines = Path(os.environ["NOTES"]).read_text().splitlines()
    return [rest for word, _, rest in (line.partition(" ") for line in lines) if word == about]


@duly.schedule("every 1s", overlap="allow")
@duly.task
async def tick() -> None:
    note("tick", int(duly.current().due_at.timestamp()))


@duly.task
async def count(number: int, seconds: float = 0) -> int:
    await sleep(seconds)
    note("count", number)
    return number


@duly.task
async def hold(go: str) -> None:
    """Run until a file appears."""
    note("hold", "began")
    try:
        while not is_up(go):
            await sleep(0.02)
    except CancelledError:
        note("hold", "stopped")
        raise
    note("hold", "ended")
