"""Threads without an event loop use the connection themselves, one at a time."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path
from threading import current_thread
from typing import NoReturn

import pytest

from duly import Duly
from duly.clock import sleep
from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.store.database import Ask, Operation, Start, at_once
from duly.store.sqlite import writer
from duly.store.sqlite.connection import sqlite3
from duly.store.sqlite.database import SqliteDatabase
from duly.sync import Portal
from tests.store.sqlite.ledger import Gate, insert, opened, words
from tests.store.sqlite.test_wake import Ear
from tests.store.sqlite.test_writes import commits

SHORT = timedelta(milliseconds=100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.sqlite3"


def blocking(database: SqliteDatabase, start: Start[int]) -> Awaitable[int]:
    """Write in a thread that has no event loop."""
    return asyncio.create_task(asyncio.to_thread(lambda: at_once(database.write(start))))


async def asked(database: SqliteDatabase, count: int) -> None:
    """Wait until so many requests are in the writer's queue."""
    assert database._writer
    while len(database._writer._queue) < count:
        await sleep(0)


async def test_a_thread_without_a_loop_writes_and_reads_by_itself(path: Path) -> None:
    def name() -> Operation[str]:
        yield Ask("rows")
        return current_thread().name

    def names(database: SqliteDatabase) -> tuple[set[str], str]:
        # More than once: the writer's thread may look into the queue at the same moment.
        found = {at_once(run(name)) for run in (database.write, database.read) for _ in range(20)}
        return found, current_thread().name

    async with opened(path) as database:
        found, own = await asyncio.to_thread(names, database)
        assert own in found
        assert await database.write(name) == "duly-sqlite-writer"


async def test_threads_that_wait_for_the_connection_share_the_next_commit(path: Path) -> None:
    async with opened(path) as database:
        before, gate = commits(path), Gate()
        first = blocking(database, insert("first", gate=gate))
        await gate.reached()
        others = [blocking(database, insert(f"{n}")) for n in range(3)]
        coroutine = asyncio.create_task(database.write(insert("coroutine")))
        await asked(database, 4)
        gate.open()
        await asyncio.gather(first, *others, coroutine)
        assert sorted(await database.read(words)) == ["0", "1", "2", "coroutine", "first"]
        assert commits(path) == before + 2


async def test_a_thread_gives_up_at_its_deadline_and_nothing_was_done(path: Path) -> None:
    async with opened(path) as database:
        gate = Gate()
        first = blocking(database, insert("first", gate=gate))
        await gate.reached()
        assert database._writer
        database._writer._deadline = SHORT
        with pytest.raises(StoreUnavailable, match="nothing was done"):
            await blocking(database, insert("never"))
        gate.open()
        await first
        assert await database.read(words) == ["first"]


async def test_a_signal_interrupts_one_thread_and_the_others_hear_of_it(path: Path) -> None:
    def interrupted() -> Operation[int]:
        yield Ask("insert", {"word": "interrupted", "number": 0})
        raise KeyboardInterrupt

    async with opened(path) as database:
        assert database._writer
        database._duty.pulse = 600.0  # the writer's own thread does not look into the queue
        await database.write(insert())
        with database._writer._connection_lock:  # so that one of the two serves both
            calls = [
                asyncio.create_task(asyncio.to_thread(end_of, database, start))
                for start in (interrupted, insert("with it"))
            ]
            await asked(database, 2)
        assert sorted(await asyncio.gather(*calls)) == ["KeyboardInterrupt", "OutcomeUnknown"]
        await blocking(database, insert("after it"))
        assert await database.read(words) == ["after it"]


async def test_a_signal_at_the_begin_of_a_transaction_does_not_leave_it_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = writer._begun

    def interrupted(connection: sqlite3.Connection) -> bool:
        monkeypatch.setattr(writer, "_begun", begun)
        begun(connection)
        raise KeyboardInterrupt

    def end() -> str:
        assert database._writer
        with database._writer._connection_lock:  # so that not the writer's own thread serves it
            return end_of(database, insert("never"))

    async with opened(path) as database, opened(path) as other:
        monkeypatch.setattr(writer, "_begun", interrupted)
        assert await asyncio.to_thread(end) == "KeyboardInterrupt"
        await other.write(insert("by another"))
        await blocking(database, insert("after it"))
        assert await database.read(words) == ["by another", "after it"]


async def test_a_signal_handler_cannot_write_while_its_thread_does(path: Path) -> None:
    def with_handler() -> Operation[int]:
        yield Ask("insert", {"word": "outer", "number": 0})
        with pytest.raises(StoreUnavailable, match="nothing was done: set a flag in the handler"):
            at_once(database.write(insert("of the handler")))
        return 1

    async with opened(path) as database:
        await blocking(database, with_handler)
        assert await database.read(words) == ["outer"]


OUTLIVES = """
import sys, threading, time
from duly import Duly
from duly.store.sqlite import writer

writer.IDLE_SECONDS = 0.01
duly = Duly(sys.argv[1])

@duly.task
def work() -> None: ...

def later() -> None:
    threading.main_thread().join()
    time.sleep(0.2)  # in which the threads of the store look around twenty times
    print(work.enqueue().state)

work.enqueue()
threading.Thread(target=later).start()
"""


def test_a_thread_that_outlives_the_main_one_can_still_enqueue(path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OUTLIVES, str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.stdout, ran.returncode) == ("ready\n", 0), ran.stderr


def end_of(database: SqliteDatabase, start: Start[int]) -> str:
    try:
        at_once(database.write(start))
    except (KeyboardInterrupt, OutcomeUnknown) as error:
        return type(error).__name__
    return "done"


async def test_a_nudge_from_a_thread_arrives_and_so_does_the_next(path: Path) -> None:
    async with opened(path) as one, opened(path) as other:
        ear = Ear(other)
        for _ in range(2):
            await asyncio.to_thread(one.nudge, ["jobs"])
        await ear.hears("jobs")
        ear.heard.clear()
        await ear.hears("jobs")


def test_an_enqueue_without_a_loop_needs_no_other_thread(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_call(*_: object) -> NoReturn:
        raise AssertionError("it asked the thread of sync calls")

    duly = Duly(str(path))

    @duly.task
    def work() -> None: ...

    try:
        first = work.enqueue()  # opens the store
        with monkeypatch.context() as patched:
            patched.setattr(Portal, "call", no_call)
            second = work.enqueue()
        assert [job.id for job in duly.jobs.list()] == [second.id, first.id]
    finally:
        duly.close()
