"""duly, with what is on by default: leases, fences, retries, history, claims by known tasks."""

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from benchmarks.queue.contestant import Place, Role, Task
from benchmarks.queue.crew import program
from benchmarks.queue.jobs import SCHEDULES, first_moment
from benchmarks.queue.workers.duly_tasks import mark, nothing
from duly import Duly
from duly.app import migrate_store, open_store
from duly.model.payload import Json
from duly.model.policies import Policies
from duly.model.schedule import Plan

TASKS = "benchmarks.queue.workers.duly_tasks"


class DulyPostgres:
    name: ClassVar[str] = "duly"
    database: ClassVar[str] = "PostgreSQL"
    role: ClassVar[Role] = "duly"
    bulk: ClassVar[bool] = True
    slowness: ClassVar[int] = 1
    durable: ClassVar[bool] = True
    once: ClassVar[bool] = False
    unfinished: ClassVar[str] = "select from duly.job"
    finished: ClassVar[str | None] = "select count(*) from duly.history where state = 'succeeded'"
    settle: ClassVar[str] = ""  # its plans are not to depend on statistics

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


class DulySchedulesPostgres(DulyPostgres):
    """Two nodes, each with a scheduler and a worker."""

    nodes: ClassVar[int] = 2

    async def schedule(self) -> None:
        store = await open_store(self.place.url)
        await store.schedules.add([_plan(number) for number in range(SCHEDULES)])
        await store.close()

    def worker(self) -> Sequence[str]:
        return program("duly_tasks")


class DulySchedulesSqlite(DulySchedulesPostgres):
    database: ClassVar[str] = "SQLite"


def _plan(number: int) -> Plan:
    at = (
        first_moment(number, ahead=timedelta(0))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
    return Plan(
        name=f"schedule {number}",
        rule=f"every 5s from {at.replace('+00:00', 'Z')}",
        task="late",
        args=Json(f'{{"number":{number}}}'),
        policies=Policies(overlap="allow"),
    )


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


QUEUES = (DulyPostgres, DulySqlite)
SCHEDULERS = (DulySchedulesPostgres, DulySchedulesSqlite)
