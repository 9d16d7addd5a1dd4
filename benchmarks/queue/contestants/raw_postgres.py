"""Hand-written SQL on PostgreSQL: what a queue with a history can reach with psycopg."""

from collections.abc import Sequence
from typing import ClassVar

import psycopg

from benchmarks.queue.contestant import Place, Role, Task
from benchmarks.queue.crew import program

TABLES = """
create table job (
    id         bigint generated always as identity primary key,
    queue      text not null default 'default',
    priority   smallint not null default 0,
    task       text not null,
    argument   bigint,
    state      text not null default 'ready',
    attempt    int not null default 0,
    worker     bigint,
    created_at timestamptz not null default clock_timestamp(),
    claimed_at timestamptz
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
create index job_ready on job (queue, priority desc, id) where state = 'ready';
create table history (like job, ended_at timestamptz not null);
create index history_id on history (id);
"""

INSERT = "insert into job (task, argument) values (%s, %s)"


class RawPostgres:
    name: ClassVar[str] = "raw SQL"
    database: ClassVar[str] = "PostgreSQL"
    role: ClassVar[Role] = "limit"
    bulk: ClassVar[bool] = True
    slowness: ClassVar[int] = 1
    durable: ClassVar[bool] = True
    once: ClassVar[bool] = False
    unfinished: ClassVar[str] = "select from job"
    finished: ClassVar[str | None] = "select count(*) from history"
    settle: ClassVar[str] = ""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def prepare(self) -> None:
        with psycopg.connect(self.place.url) as connection:
            connection.execute(TABLES)

    async def producers(self, count: int) -> Sequence["RawPostgresProducer"]:
        return [
            RawPostgresProducer(
                await psycopg.AsyncConnection.connect(self.place.url, autocommit=True)
            )
            for _ in range(count)
        ]

    def worker(self) -> Sequence[str]:
        return program("raw_postgres")

    def environment(self) -> dict[str, str]:
        return {}


class RawPostgresProducer:
    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection

    async def enqueue(self, task: Task, argument: int | None = None) -> None:
        await self._connection.execute(INSERT, [task, argument], prepare=True)
        # Only the jobs that somebody waits for wake the worker: the limit of an insert is one.
        if task == "mark":
            await self._connection.execute("notify job")

    async def enqueue_many(self, task: Task, count: int) -> None:
        copy = "copy job (task) from stdin"
        async with self._connection.cursor().copy(copy) as rows:
            await rows.write(f"{task}\n" * count)

    async def close(self) -> None:
        await self._connection.close()


QUEUES = (RawPostgres,)
