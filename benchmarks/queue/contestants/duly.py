"""duly, with what is on by default: leases, fences, retries, history, claims by known tasks."""

import asyncio
import sys
from collections.abc import Sequence
from typing import ClassVar

from benchmarks.queue.contestant import Place, Role, Task
from benchmarks.queue.workers.duly_tasks import mark, nothing
from duly import Duly
from duly.app import migrate_store

TASKS = "benchmarks.queue.workers.duly_tasks"


class DulyPostgres:
    name: ClassVar[str] = "duly"
    database: ClassVar[str] = "PostgreSQL"
    role: ClassVar[Role] = "duly"
    bulk: ClassVar[bool] = True
    durable: ClassVar[bool] = True
    unfinished: ClassVar[str] = "select from duly.job"
    finished: ClassVar[str | None] = "select count(*) from duly.history where state = 'succeeded'"
    settle: ClassVar[str] = ""  # its plans are not to depend on statistics
    bury: ClassVar[str] = """
        insert into duly.history
        select copy.*
          from (select history from duly.history limit 1) as one,
               generate_series(1, :count) as n,
               jsonb_populate_record(
                   one.history, jsonb_build_object('id', -n, 'request', -n)
               ) as copy
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    async def prepare(self) -> None:
        await migrate_store(self.place.url)

    async def producers(self, count: int) -> Sequence["DulyProducer"]:
        return [DulyProducer(self.place.url)] * count

    def worker(self) -> Sequence[str]:
        return [sys.executable, "-m", "duly", "worker", TASKS, "--concurrency", "100"]

    def environment(self) -> dict[str, str]:
        return {"DULY_URL": self.place.url}


class DulySqlite(DulyPostgres):
    name: ClassVar[str] = "duly"
    database: ClassVar[str] = "SQLite"
    unfinished: ClassVar[str] = "select 1 from duly_job"
    finished: ClassVar[str | None] = "select count(*) from duly_history where state = 'succeeded'"
    bury: ClassVar[str] = """
        create temporary table copy as
        with recursive n (n) as (select 1 union all select n + 1 from n limit :count)
        select one.*
          from n cross join (select * from duly_history limit 1) as one;
        update copy set id = -rowid, request = -rowid;
        insert into duly_history select * from copy;
        drop table copy;
    """

    async def producers(self, count: int) -> Sequence["DulyProducer"]:
        return [DulySqliteProducer(self.place.url)] * count


class DulyProducer:
    """All callers of a process share an app, which commits together what they ask for at once."""

    def __init__(self, url: str) -> None:
        self._duly = Duly(url)
        self._nothing = self._duly.task(nothing)
        self._mark = self._duly.task(mark)

    async def enqueue(self, task: Task, argument: int | None = None) -> None:
        if task == "mark":
            await self._mark.aenqueue(argument or 0)
        else:
            await self._nothing.aenqueue()

    async def enqueue_many(self, task: Task, count: int) -> None:
        assert task == "nothing"
        await self._duly.aenqueue_many([self._nothing.bind() for _ in range(count)])

    async def close(self) -> None:
        await self._duly.aclose()


class DulySqliteProducer(DulyProducer):
    def enqueue_and_block(self) -> None:
        self._nothing.enqueue()

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._duly.close)


CONTESTANTS = (DulyPostgres, DulySqlite)
