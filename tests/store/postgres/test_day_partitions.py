"""A day partition is dropped with its old rows, and never with a row that is being written."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from duly.clock import Timeout
from duly.instants import to_us
from duly.store import maintenance, rows
from duly.store.connect import connect
from duly.store.database import Ask, alone
from duly.store.migrate import migrate
from duly.store.store import SqlStore
from duly.testing.clock import VirtualClock

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LONG_AGO = to_us(START - 30 * DAY)
BEFORE = to_us(START + DAY)  # what was decided before this is old

FIRE = {
    "id": 2, "schedule_id": 1, "due_at": LONG_AGO + 1, "covers_from": LONG_AGO + 1, "count": 1,
    "outcome": "queued", "cause": None, "reason": "", "job_id": None, "series": 7,
}  # fmt: skip
WRITE = (
    "insert into duly.fire (id, schedule_id, due_at, covers_from, count, outcome, reason, series,"
    f" decided_at) values (2, 1, {LONG_AGO + 1}, {LONG_AGO + 1}, 1, 'queued', '', 7, {BEFORE})"
)
DROP = f"select duly.drop_days('fire', 'decided_at', {BEFORE}, 1)"


@pytest.fixture
async def store(pg_dsn: str) -> AsyncIterator[SqlStore]:
    """With a fire of long ago in a partition that is old."""
    clock = VirtualClock(START)
    store = connect(pg_dsn, clock=clock)
    await store.open()
    await migrate(store.database)
    old = {**FIRE, "id": 1, "due_at": LONG_AGO, "covers_from": LONG_AGO, "series": 0}
    await record(store, old)
    clock.advance(2 * DAY)
    yield store
    await store.close()


@pytest.fixture
async def other(pg_dsn: str, store: SqlStore) -> AsyncIterator[psycopg.AsyncConnection]:
    """Somebody in the middle of a transaction."""
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        yield connection
        await connection.rollback()


async def record(store: SqlStore, fire: dict[str, object]) -> None:
    ask = Ask("record_fires", {"rows": rows.packed([fire])})
    await store.database.write(lambda: alone(ask))


async def prune(store: SqlStore) -> int:
    return await store.database.write(lambda: maintenance.prune("prune_fires", BEFORE, 10))


async def waits(pg_dsn: str) -> None:
    """Return as soon as somebody waits for a lock."""
    async with (
        Timeout(10),
        await psycopg.AsyncConnection.connect(pg_dsn, autocommit=True) as connection,
    ):
        asked = "select 1 from pg_locks where not granted and database ="
        asked += " (select oid from pg_database where datname = current_database())"
        while not await (await connection.execute(asked.encode())).fetchone():
            pass


async def fires(pg_dsn: str) -> list[int]:
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        found = await (await connection.execute("select id from duly.fire order by 1")).fetchall()
    return [number for (number,) in found]


async def test_a_day_with_old_rows_alone_is_dropped(pg_dsn: str, store: SqlStore) -> None:
    assert await prune(store) == 1
    assert await fires(pg_dsn) == []


async def test_a_day_into_which_somebody_writes_is_left_to_the_next_time(
    pg_dsn: str, store: SqlStore, other: psycopg.AsyncConnection
) -> None:
    await other.execute(WRITE.encode())
    assert await prune(store) == 0
    await other.commit()
    assert await fires(pg_dsn) == [1, 2]


async def test_a_row_that_is_committed_while_the_pruner_waits_is_kept(
    pg_dsn: str, store: SqlStore, other: psycopg.AsyncConnection
) -> None:
    await other.execute(WRITE.encode())
    pruning = asyncio.create_task(prune(store))
    await waits(pg_dsn)
    await other.commit()
    assert await pruning == 0
    assert await fires(pg_dsn) == [1, 2]


async def test_a_row_that_waits_for_the_pruner_gets_a_day_of_its_own(
    pg_dsn: str, store: SqlStore, other: psycopg.AsyncConnection
) -> None:
    dropped = await (await other.execute(DROP.encode())).fetchall()
    assert len(dropped) == 1
    writing = asyncio.create_task(record(store, FIRE))
    await waits(pg_dsn)
    await other.commit()
    await writing
    assert await fires(pg_dsn) == [2]
