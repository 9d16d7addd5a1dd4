"""Programs that tests start, and kill: ``python -m tests.store.sqlite.programs NAME PATH``."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duly.errors import StoreUnavailable
from duly.store.database import Ask, Operation
from duly.store.sqlite.database import SqliteDatabase
from tests.store.sqlite.ledger import STATEMENTS, insert, opened

ROOT = Path(__file__).parents[3]


@contextmanager
def started(program: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.store.sqlite.programs", program, path],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


async def write_for_ever(path: str) -> None:
    """Say each word that was written, when it has been."""
    async with opened(path) as database:
        number = 0
        while True:
            word = f"{os.getpid()}-{number}"
            await database.write(insert(word))
            say(word)
            number += 1


async def hold_the_lock(path: str) -> None:
    async with opened(path) as database:
        await database.write(_never_ending)


async def fork_while_holding_the_lock(path: str) -> None:
    """The child tries what it must not do, and then does what it is told."""
    async with opened(path) as database:
        holding = asyncio.create_task(database.write(_never_ending))
        await asyncio.get_running_loop().run_in_executor(None, _HELD.wait)
        if os.fork() == 0:
            _child(database)
        await holding


async def nudge(path: str) -> None:
    async with opened(path) as database:
        database.nudge(["jobs"])


async def wait_to_be_killed(path: str) -> None:
    async with opened(path):
        say("open")
        sys.stdin.read()


async def forget_to_close(path: str) -> None:
    database = SqliteDatabase(path, statements=STATEMENTS)
    await database.open()
    database.listen(say)


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


_HELD = threading.Event()


def _never_ending() -> Operation[None]:
    yield Ask("insert", {"word": "never", "number": 0})
    say("holding")
    _HELD.set()
    threading.Event().wait()


def _child(database: SqliteDatabase) -> None:
    try:
        database.write(insert("from a child")).send(None)
    except StoreUnavailable as refusal:
        say(f"child: {refusal}")
    for line in sys.stdin:
        say(f"child: {line.strip()}")
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](sys.argv[2]))
