"""What each step of a job's life asks the database, compared with what was recorded.

``costs.txt`` has the statements of each step, in the order of their first use; on PostgreSQL each
of them is a round trip. A change that needs more of them, or fewer, changes that file: counts do
not depend on the machine.
"""

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from duly.clock import now
from duly.model.claimed import Claimed
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
from duly.store.values import CLOCK, ClaimRequest, JobDone, Settlement
from duly.testing.clock import VirtualClock
from tests.factories import call, plan, profile

T = TypeVar("T")

RECORDED = Path(__file__).parent / "costs.txt"
BATCH = 100
LEASE = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Costs:
    """A store whose statements are counted, and the steps of jobs in it."""

    def __init__(self, store: SqlStore, clock: VirtualClock, asked: Counter[str]) -> None:
        self._store = store
        self._clock = clock
        self._asked = asked
        self.found: dict[str, str] = {}

    def _note(self, step: str) -> None:
        self.found[step] = ", ".join(
            name if count == 1 else f"{count} x {name}" for name, count in self._asked.items()
        )
        self._asked.clear()

    async def measure(self) -> Mapping[str, str]:
        store = self._store
        await store.maintenance.make_days()
        worker = await store.work.register(profile(tasks=["work"]), lease=LEASE)
        await store.jobs.enqueue([call()])
        await self._drain(worker)
        self._asked.clear()
        await store.jobs.enqueue([call()])
        self._note("enqueue one")
        await store.jobs.enqueue([call()] * 999)
        self._note("enqueue 999 at once")
        await self._drain(worker)
        self._note("finish and claim 1000, a hundred at a time")
        await store.work.ready(["default"], ["work"])
        self._note("peek")
        await store.maintenance.dispatch(limit=BATCH)
        self._note("look for what is due")
        await store.work.renew(worker.id, LEASE)
        self._note("renew a lease")
        await self._fire_and_settle(worker)
        return self.found

    async def _drain(self, worker: WorkerInfo) -> None:
        request = ClaimRequest(worker=worker.id, queue="default", tasks=["work"], limit=BATCH)
        done: list[JobDone] = []
        while True:
            turn = await self._store.work.finish_and_claim(done, request)
            done = [JobDone(job.id, job.fence) for job in turn.jobs]
            if not done:
                return

    async def _fire_and_settle(self, worker: WorkerInfo) -> None:
        await self._add("allow")
        self._asked.clear()
        await self._fire()
        self._note("nothing to fire")
        self._clock.advance(timedelta(hours=1))
        await self._fire()
        self._note("fire 50")
        jobs = [job for job in await self._claimed(worker) if job.is_plain]
        await self._store.work.finish_and_claim([JobDone(job.id, job.fence) for job in jobs])
        self._note("finish 50 of schedules that overlap")
        await self._add("queue_one")
        self._clock.advance(timedelta(hours=1))
        await self._fire()
        held = [job for job in await self._claimed(worker) if not job.is_plain]
        assert len(jobs) == len(held) == 50
        await self._store.work.settle([_succeeded(job) for job in held])
        self._note("settle 50 of schedules")

    async def _add(self, overlap: Overlap) -> None:
        policies = Policies(overlap=overlap)
        await self._store.schedules.add(
            [plan(f"{overlap} {n}", "every 1h", task="work", policies=policies) for n in range(50)]
        )

    async def _claimed(self, worker: WorkerInfo) -> Sequence[Claimed]:
        request = ClaimRequest(
            worker=worker.id, queue="default", tasks=["work"], limit=BATCH, shelf=CLOCK
        )
        jobs = (await self._store.work.finish_and_claim([], request)).jobs
        self._asked.clear()
        return jobs

    async def _fire(self) -> None:
        await self._store.ledger.fire(decide, limit=200, trust=lambda _: True)


def _succeeded(job: Claimed) -> Settlement:
    verdict = judge(Tried.of(job), Succeeded(None), now(), dice=0.5)
    return Settlement(job=job, verdict=verdict, outcome="succeeded")


def recorded(database: str) -> dict[str, str]:
    lines = [line.split(": ", 2) for line in RECORDED.read_text().splitlines()]
    return {step: statements for where, step, statements in lines if where == database}


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
        found = await Costs(store, clock, asked).measure()
    assert found == recorded("sqlite")


async def test_a_step_on_postgresql_asks_what_was_recorded(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    rows, execute, commit = PostgresDatabase._rows, Connection.execute, Connection.commit

    async def ask_counted(
        database: PostgresDatabase, connection: Connection, ask: Ask
    ) -> list[Row]:
        asked[ask.statement] += 1
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
    async with opened(pg_dsn, clock) as store:
        found = await Costs(store, clock, asked).measure()
    assert found == recorded("postgres")
