"""A process is killed in the middle of a backfill, at any instant: all of it is there, or nothing.

Then it is repeated, by somebody who does not know which of the two it was: everything is there,
once. On SQLite.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import pytest

from duly.app import Store, migrate_store, open_store
from duly.clock import boottime, now
from duly.store.store import SqlStore
from tests.factories import plan

MOMENTS = 200
MANY = 1_000_000
ROUNDS = 24
HOURS = "2023..2024-*-* *:00 UTC"  # and none to come, while we look
END = datetime(2024, 1, 1, tzinfo=UTC)
STRETCH = {"since": END - MOMENTS * timedelta(hours=1), "until": END}
# It has imported everything before it is asked, and is one thread: what it forks begins at once.
FORKING = """
import asyncio, os, sys
from duly.app import open_store
import tests.app.test_backfill_killed as test

def say(word):
    os.write(1, f"{word}\\n".encode())  # in one go: a line is not cut in two by whoever kills us

async def backfill(url, name):
    store = await open_store(url)
    say("begun")
    await store.schedules.backfill(name, **test.STRETCH)
    say("done")

say("ready")
while name := sys.stdin.readline().strip():
    child = os.fork()
    if not child:
        asyncio.run(backfill(sys.argv[1], name))
        os._exit(0)
    say(child)
    sys.stdin.readline()  # until then its number is not given to another
    os.waitpid(child, 0)
    say("over")
"""


@pytest.fixture
def home(url: str) -> str:
    if not url.startswith("postgresql:"):
        asyncio.run(migrate_store(url))
    return url


@pytest.fixture
async def store(home: str) -> AsyncIterator[Store]:
    store = await open_store(home)
    yield store
    await store.close()


async def test_killed_in_the_middle_it_is_all_there_or_nothing_and_once_if_repeated(
    store: SqlStore, home: str
) -> None:
    names = [f"round {n}" for n in range(ROUNDS)]
    await store.schedules.add([plan(name, HOURS) for name in names])
    dice, interrupted = random.Random(now().timestamp()), 0
    with forking(home) as program:
        first, *others = names
        length, finished = await asyncio.to_thread(program.backfill, first, None)
        assert finished
        assert await found(store, first) == (MOMENTS, MOMENTS)
        for name in others:
            _, finished = await asyncio.to_thread(
                program.backfill, name, dice.uniform(0, 1.2 * length)
            )
            there = await found(store, name)
            assert there == (MOMENTS, MOMENTS) if finished else there in ((0, 0), (MOMENTS,) * 2)
            interrupted += not finished
            done = await store.schedules.backfill(name, **STRETCH)  # type: ignore[arg-type]
            assert len(done.queued) == MOMENTS - there[0]
            assert await found(store, name) == (MOMENTS, MOMENTS)
    assert interrupted > ROUNDS / 10, "some were killed before they were done"


async def found(store: SqlStore, name: str) -> tuple[int, int]:
    """So many moments are in the ledger, each once, and so many jobs are theirs."""
    fires = await store.ledger.fires(name, limit=10 * MOMENTS)
    assert len({fire.due_at for fire in fires}) == len(fires)
    assert all(fire.is_backfill for fire in fires)
    mine = (await store.schedules.get(name)).id
    jobs = [job for job in await store.jobs.page(limit=MANY) if job.schedule_id == mine]
    assert {fire.job_id for fire in fires} == {job.id for job in jobs}
    notes = [what for _, _, what in await store.schedules.changes(name)]
    assert len(notes) == (1 if fires else 0)
    return len(fires), len(jobs)


class Program:
    """Somebody who backfills, again and again, whatever happens to them."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin: IO[str] = process.stdin
        self._stdout: IO[str] = process.stdout
        assert self.hear() == "ready"

    def hear(self) -> str:
        return self._stdout.readline().strip()

    def backfill(self, name: str, killed_after: float | None) -> tuple[float, bool]:
        """Let a child do it, and kill it so many seconds later: how long, and whether it did."""
        print(name, file=self._stdin, flush=True)
        heard = [self.hear(), self.hear()]  # who comes first is not known
        child = next(int(word) for word in heard if word.isdigit())
        assert "begun" in heard
        started = boottime()
        if killed_after is not None:
            while boottime() - started < killed_after:
                pass
            os.kill(child, signal.SIGKILL)
        else:
            assert self.hear() == "done"
        length, is_done = boottime() - started, killed_after is None
        print("over", file=self._stdin, flush=True)
        while (word := self.hear()) != "over":
            is_done = word == "done"
        return length, is_done


@contextmanager
def forking(url: str) -> Iterator[Program]:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKING, url],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Program(process)
        finally:
            process.kill()
