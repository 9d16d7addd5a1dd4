"""A task's own transaction in a file, which has one writer at a time."""

import asyncio
from datetime import timedelta

import pytest

from duly.clock import Timeout, sleep
from duly.errors import StoreUnavailable, WrongState
from duly.model.job import Claimed
from duly.store.store import SqlStore
from tests.factories import call
from tests.store.completing import LEASE, Leave, completing, notes_in, state

SHORT = timedelta(seconds=0.9)  # a block may take a third of it


async def test_others_write_when_the_block_has_ended(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    waiting: list[asyncio.Task[object]] = []

    async def renew(_: object) -> None:
        waiting.append(asyncio.create_task(store.work.renew(job.worker, LEASE)))
        await sleep(0.05)
        assert not waiting[0].done()

    await leave(completing(dsn, job), meanwhile=renew)
    assert await waiting[0] is not None
    assert (notes_in(dsn), await state(store, job)) == ([1], "succeeded")


async def test_a_block_that_takes_too_long_is_rolled_back_and_writes_nothing_any_more(
    store: SqlStore, job: Claimed, dsn: str
) -> None:
    completion = completing(dsn, job, lease=SHORT)

    async def work(number: int) -> None:
        async with completion as tx:
            await tx.execute(f"insert into note values ({number}, '')")
            async with Timeout(20):  # until the block is over, and others can write
                await store.jobs.enqueue([call()])
            await tx.execute(f"insert into note values ({number + 1}, '')")

    with pytest.raises(WrongState, match=r"held the write lock of .* for 0\.3 s"):
        await work(1)
    assert not completion.completed
    assert (notes_in(dsn), await state(store, job)) == ([], "running")
    async with completing(dsn, job) as tx:
        await tx.execute("insert into note values (3, '')")
    assert (notes_in(dsn), await state(store, job)) == ([3], "succeeded")


async def test_a_block_that_is_cancelled_is_rolled_back_and_gives_the_lock_back(
    store: SqlStore, job: Claimed, dsn: str
) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with completing(dsn, job) as tx:
            await tx.execute("insert into note values (1, '')")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.work.renew(job.worker, LEASE) is not None
    assert (notes_in(dsn), await state(store, job)) == ([], "running")


async def test_a_script_is_refused_because_it_would_commit(job: Claimed, dsn: str) -> None:
    with pytest.raises(WrongState, match="commits first"), completing(dsn, job) as tx:
        tx.executescript("insert into note values (1, '')")
    assert notes_in(dsn) == []


async def test_a_lock_that_another_holds_for_long_is_said(job: Claimed, dsn: str) -> None:
    async with completing(dsn, job):
        with pytest.raises(StoreUnavailable, match=r"another process has held .*lock"):
            async with completing(dsn, job, lease=SHORT):
                pass
