"""pgqueuer: PostgreSQL, the fastest of the peers that keep their jobs."""

from collections.abc import Sequence
from typing import ClassVar

import asyncpg  # type: ignore[import-untyped]
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks.queue.contestant import Place, Role, Task
from benchmarks.queue.crew import program


class PgQueuer:
    name: ClassVar[str] = "pgqueuer"
    database: ClassVar[str] = "PostgreSQL"
    role: ClassVar[Role] = "peer"
    bulk: ClassVar[bool] = True
    slowness: ClassVar[int] = 1
    durable: ClassVar[bool] = True
    once: ClassVar[bool] = False
    unfinished: ClassVar[str] = "select from pgqueuer"
    finished: ClassVar[str | None] = "select count(*) from pgqueuer_log where status = 'successful'"
    settle: ClassVar[str] = "analyze"

    def __init__(self, place: Place) -> None:
        self.place = place

    async def prepare(self) -> None:
        connection = await asyncpg.connect(self.place.url)
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await queries.optimize_autovacuum()
        await connection.close()

    async def producers(self, count: int) -> Sequence["PgQueuerProducer"]:
        return [PgQueuerProducer(await asyncpg.connect(self.place.url)) for _ in range(count)]

    def worker(self) -> Sequence[str]:
        return program("pgqueuer")

    def environment(self) -> dict[str, str]:
        return {}


class PgQueuerProducer:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._queries = Queries(AsyncpgDriver(connection))

    async def enqueue(self, task: Task, argument: int | None = None) -> None:
        await self._queries.enqueue(task, None if argument is None else b"%d" % argument)

    async def enqueue_many(self, task: Task, count: int) -> None:
        await self._queries.enqueue([task] * count, [None] * count, [0] * count)

    async def close(self) -> None:
        await self._connection.close()


QUEUES = (PgQueuer,)
