"""A caller's transaction that stays open holds up nobody else."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from duly.model.claimed import Claimed
from duly.model.job import Call
from duly.model.states import Move, State
from duly.policy.verdict import Verdict
from duly.store.connect import connect
from duly.store.foreign import aenqueue_on
from duly.store.migrate import migrate
from duly.store.protocol import Settlement, Wish
from duly.store.sql_store import SqlStore
from duly.testing.clock import VirtualClock
from duly.testing.factories import profile

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
async def store(pg_dsn: str, clock: VirtualClock) -> AsyncIterator[SqlStore]:
    store = connect(pg_dsn, clock=clock)
    await store.open()
    await migrate(store.database)
    yield store
    await store.close()


@pytest.fixture
async def caller(pg_dsn: str, store: SqlStore) -> AsyncIterator[psycopg.AsyncConnection]:
    """Somebody in the middle of a transaction that does not end."""
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        yield connection
        await connection.rollback()


async def test_due_jobs_are_made_ready_beside_a_late_one_that_somebody_moves(
    store: SqlStore, clock: VirtualClock, caller: psycopg.AsyncConnection
) -> None:
    late = Call(task="late", key="k", run_after=MINUTE, start_within=timedelta(seconds=1))
    await store.jobs.enqueue([late, *[Call(task="due", run_after=MINUTE)] * 5])
    await aenqueue_on(caller, [late])
    clock.advance(2 * MINUTE)
    async with asyncio.timeout(5):
        done = await store.upkeep.dispatch(limit=100)
    assert (done.ready, done.expired) == (5, 0)


async def test_jobs_are_settled_beside_one_whose_key_somebody_asks_for(
    store: SqlStore, caller: psycopg.AsyncConnection
) -> None:
    await store.jobs.enqueue([Call(task="work", key="k"), *[Call(task="work")] * 9])
    worker = await store.work.register(profile("w"), lease=MINUTE)
    wish = Wish(worker=worker.id, queue="default", tasks=["work"], limit=10)
    jobs = (await store.work.claim(wish)).jobs
    await aenqueue_on(caller, [Call(task="work", key="k")])
    async with asyncio.timeout(5):
        settled = await store.work.settle([done(job) for job in jobs])
    assert (len(settled.kept), settled.refused) == (10, [])
    await caller.commit()
    [left] = await store.jobs.page()
    assert (left.key, left.state) == ("k", State.READY)


def done(job: Claimed) -> Settlement:
    verdict = Verdict(move=Move.SUCCEED, reason="done", crashes=0)
    return Settlement(job=job, verdict=verdict, outcome="succeeded")
