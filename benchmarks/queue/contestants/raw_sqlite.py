"""Hand-written SQL on SQLite, synchronous FULL: what one file can reach."""

import sqlite3
from collections.abc import Sequence
from typing import ClassVar

from benchmarks.queue.contestant import Place, Role, Task
from benchmarks.queue.crew import program

TABLES = """
pragma journal_mode = wal;
create table job (
    id         integer primary key,
    queue      text not null default 'default',
    priority   integer not null default 0,
    task       text not null,
    argument   integer,
    state      text not null default 'ready',
    attempt    integer not null default 0,
    worker     integer,
    created_at integer not null default (unixepoch()),
    claimed_at integer
);
create index job_ready on job (queue, priority desc, id) where state = 'ready';
create table history as select *, 0 as ended_at from job;
create index history_id on history (id);
"""

INSERT = "insert into job (task, argument) values (?, ?)"


class RawSqlite:
    name: ClassVar[str] = "raw SQL"
    database: ClassVar[str] = "SQLite"
    role: ClassVar[Role] = "limit"
    bulk: ClassVar[bool] = True
    slowness: ClassVar[int] = 1
    durable: ClassVar[bool] = True
    once: ClassVar[bool] = False
    unfinished: ClassVar[str] = "select 1 from job"
    finished: ClassVar[str | None] = "select count(*) from history"
    settle: ClassVar[str] = ""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def prepare(self) -> None:
        connection = sqlite3.connect(self.place.url)
        connection.executescript(TABLES)
        connection.close()

    async def producers(self, count: int) -> Sequence["RawSqliteProducer"]:
        connection = sqlite3.connect(self.place.url, timeout=30, isolation_level=None)
        connection.execute("pragma synchronous = full")
        # Inserts of one process wait for the disk one after the other, whoever asks for them.
        return [RawSqliteProducer(connection)] * count

    def worker(self) -> Sequence[str]:
        return program("raw_sqlite")

    def environment(self) -> dict[str, str]:
        return {}


class RawSqliteProducer:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def enqueue(self, task: Task, argument: int | None = None) -> None:
        self._connection.execute(INSERT, [task, argument])

    async def enqueue_many(self, task: Task, count: int) -> None:
        self._connection.execute("begin immediate")
        self._connection.executemany(INSERT, [(task, None)] * count)
        self._connection.execute("commit")

    async def close(self) -> None:
        self._connection.close()


QUEUES = (RawSqlite,)
