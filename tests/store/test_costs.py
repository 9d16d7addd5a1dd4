"""What each step of a job's life asks the database, compared with what was recorded.

``costs.txt`` has the statements of each step, in the order of their first use; on PostgreSQL each
of them is a round trip. It also has the pages of tables and indexes that PostgreSQL touches for
each job of a step. A change that needs more of them, or fewer, changes that file: counts do not
depend on the machine.
"""

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from duly.clock import now
from duly.model.job import Claimed
from duly.model.outcome import Succeeded
from duly.model.policies import Overlap, Policies
from duly.model.worker import WorkerInfo
from duly.policy.firing import decide
from duly.policy.verdict import Tried, judge
from duly.store.connect import connect
from duly.store.database import Ask, Operation, Row
from duly.store.migrate import migrate
from duly.store.postgres.connections import Connection
from duly.store.postgres.database import PostgresDatabase
from duly.store.sqlite import connection as sqlite_connection
from duly.store.sqlite import database as sqlite_database
from duly.store.store import SqlStore
from duly.store.values import CLOCK, ClaimRequest, JobDone, Offer, Settlement
from duly.testing.clock import VirtualClock
from tests.factories import call, plan, profile

T = TypeVar("T")

RECORDED = Path(__file__).parent / "costs.txt"
BATCH = 100
LEASE = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)

# Half a page for each job: one more index, or one more look at a row, is a whole one.
PAGES_MORE = 0.5

# Pages that were touched since the beginning, of tables, of their indexes and of long values.
TOUCHED = """
select sum(coalesce(heap_blks_hit, 0) + coalesce(heap_blks_read, 0)
           + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0)
           + coalesce(toast_blks_hit, 0) + coalesce(toast_blks_read, 0)
           + coalesce(tidx_blks_hit, 0) + coalesce(tidx_blks_read, 0))
  from pg_statio_all_tables
 where schemaname = 'duly'
"""
TABLES = """
select tablename::bytea
  from pg_tables
 where schemaname = 'duly' and tablename !~ '^(history|fire)$'
"""


async def no_pages() -> int:
    """Return nothing: SQLite does not count pages."""
    return 0


class Costs:
    """A store whose statements and pages are counted, and the steps of jobs in it."""

    def __init__(
        self,
        store: SqlStore,
        clock: VirtualClock,
        asked: Counter[str],
        touched: Callable[[], Awaitable[int]] = no_pages,
    ) -> None:
        self._store = store
        self._clock = clock
        self._asked = asked
        self._touched = touched
        self._before = 0
        self.statements: dict[str, str] = {}
        self.pages: dict[str, float] = {}

    async def _begin(self) -> None:
        self._asked.clear()
        self._before = await self._touched()

    async def _note(self, step: str, *, jobs: int = 1) -> None:
        self.statements[step] = ", ".join(
            name if count == 1 else f"{count} x {name}" for name, count in self._asked.items()
        )
        self.pages[step] = (await self._touched() - self._before) / jobs
        await self._begin()

    async def measure(self) -> None:
        store = self._store
        await store.maintenance.make_days()
        await self._occupy_another_worker()
        worker = await store.work.register(profile(tasks=["work"]), lease=LEASE)
        for _ in range(2):  # the second time prepares the statement, which reads pages to plan it
            await store.jobs.enqueue([call()])
        await self._drain(worker)
        await self._begin()
        await store.jobs.enqueue([call()])
        await self._note("enqueue one")
        await store.jobs.enqueue([call()] * 999)
        await self._note("enqueue 999 at once", jobs=999)
        await self._drain(worker)
        await self._note("finish and claim 1000, a hundred at a time", jobs=1000)
        await store.work.ready(["default"], ["work"])
        await self._note("peek")
        await store.maintenance.dispatch(limit=BATCH)
        await self._note("look for what is due")
        await store.work.renew(worker.id, LEASE)
        await self._note("renew a lease")
        await self._fire_and_settle(worker)

    async def _occupy_another_worker(self) -> None:
        """Let jobs of the same queue run elsewhere: a plan that walks past them touches more."""
        await self._store.jobs.enqueue([call()] * BATCH * 10)
        other = await self._store.work.register(profile(tasks=["work"]), lease=LEASE)
        for _ in range(10):
            await self._store.work.finish_and_claim([], _request(other))

    async def _drain(self, worker: WorkerInfo) -> None:
        done: list[JobDone] = []
        while True:
            turn = await self._store.work.finish_and_claim(done, _request(worker))
            done = [JobDone(job.id, job.fence) for job in turn.jobs]
            if not done:
                return

    async def _fire_and_settle(self, worker: WorkerInfo) -> None:
        await self._add("allow")
        await self._begin()
        await self._fire()
        await self._note("nothing to fire")
        self._clock.advance(timedelta(hours=1))
        await self._fire()
        await self._note("fire 50", jobs=50)
        jobs = [job for job in await self._claimed(worker) if job.is_plain]
        await self._store.work.finish_and_claim([JobDone(job.id, job.fence) for job in jobs])
        await self._note("finish 50 of schedules that overlap", jobs=50)
        await self._add("queue_one")
        self._clock.advance(timedelta(hours=1))
        await self._fire()
        held = [job for job in await self._claimed(worker) if not job.is_plain]
        assert len(jobs) == len(held) == 50
        await self._store.work.settle([_succeeded(job) for job in held])
        await self._note("settle 50 of schedules", jobs=50)
        self._clock.advance(timedelta(hours=1))
        await self._fire(lambda _: replace(_request(worker), shelf=CLOCK, limit=1))
        await self._note("fire 100 and claim one", jobs=100)

    async def _add(self, overlap: Overlap) -> None:
        policies = Policies(overlap=overlap)
        await self._store.schedules.add(
            [plan(f"{overlap} {n}", "every 1h", task="work", policies=policies) for n in range(50)]
        )

    async def _claimed(self, worker: WorkerInfo) -> Sequence[Claimed]:
        request = replace(_request(worker), shelf=CLOCK)
        jobs = (await self._store.work.finish_and_claim([], request)).jobs
        await self._begin()
        return jobs

    async def _fire(self, offer: Offer | None = None) -> None:
        await self._store.ledger.fire(decide, limit=200, trust=lambda _: True, offer=offer)


def _request(worker: WorkerInfo) -> ClaimRequest:
    return ClaimRequest(worker=worker.id, queue="default", tasks=["work"], limit=BATCH)


def _succeeded(job: Claimed) -> Settlement:
    verdict = judge(Tried.of(job), Succeeded(None), now(), dice=0.5)
    return Settlement(job=job, verdict=verdict, outcome="succeeded")


def recorded(what: str) -> dict[str, str]:
    lines = [line.split(": ", 2) for line in RECORDED.read_text().splitlines()]
    return {step: said for where, step, said in lines if where == what}


@asynccontextmanager
async def opened(url: str, clock: VirtualClock) -> AsyncIterator[SqlStore]:
    store = connect(url, clock=clock)
    await store.open()
    try:
        await migrate(store.database)
        yield store
    finally:
        await store.close()


async def test_a_step_on_sqlite_asks_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    run = sqlite_connection.run

    def counted(operation: Operation[T]) -> Operation[T]:
        answer: list[Row] | None = None
        try:
            while True:
                ask = next(operation) if answer is None else operation.send(answer)
                asked[ask.statement] += 1
                answer = yield ask
        except StopIteration as end:
            result: T = end.value
            return result

    def noted(connection: sqlite3.Connection, operation: Operation[T], **words: Any) -> T:
        return run(connection, counted(operation), **words)

    monkeypatch.setattr(sqlite_database, "run", noted)
    clock = VirtualClock(START)
    async with opened(":memory:", clock) as store:
        costs = Costs(store, clock, asked)
        await costs.measure()
    assert costs.statements == recorded("sqlite")


@pytest.mark.every_postgres
async def test_a_step_on_postgresql_asks_and_touches_what_was_recorded(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    used: set[Connection] = set()
    rows, execute, commit = PostgresDatabase._rows, Connection.execute, Connection.commit

    async def ask_counted(
        database: PostgresDatabase, connection: Connection, ask: Ask
    ) -> list[Row]:
        asked[ask.statement] += 1
        used.add(connection)
        return await rows(database, connection, ask)

    async def execute_counted(
        connection: Connection, *args: Any, **words: Any
    ) -> psycopg.AsyncCursor[Row]:
        if words.get("prepare") is False:
            asked["begin"] += 1
        return await execute(connection, *args, **words)

    async def commit_counted(connection: Connection) -> None:
        asked["commit"] += 1
        await commit(connection)

    monkeypatch.setattr(PostgresDatabase, "_rows", ask_counted)
    monkeypatch.setattr(Connection, "execute", execute_counted)
    monkeypatch.setattr(Connection, "commit", commit_counted)
    clock = VirtualClock(START)
    async with (
        opened(pg_dsn, clock) as store,
        await psycopg.AsyncConnection.connect(pg_dsn, autocommit=True) as onlooker,
    ):

        async def touched() -> int:
            for connection in used:
                await execute(connection, "select pg_stat_force_next_flush()")
            found = await (await onlooker.execute(TOUCHED)).fetchone()
            assert found
            return int(found[0])

        await store.maintenance.make_days()
        for table in await (await onlooker.execute(TABLES)).fetchall():
            await onlooker.execute(b"alter table duly.%s set (autovacuum_enabled = off)" % table)
        costs = Costs(store, clock, asked, touched)
        await costs.measure()
        version = 18 if onlooker.info.server_version >= 18_00_00 else 15
    assert costs.statements == recorded("postgres")
    pages = recorded(f"pages on {version}")
    bounds = {step: float(each) + PAGES_MORE for step, each in pages.items()}
    assert costs.pages.keys() == bounds.keys()
    assert {step: n for step, n in costs.pages.items() if n > bounds[step]} == {}
