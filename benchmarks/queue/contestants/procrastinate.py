"""Procrastinate: PostgreSQL, one job a statement."""

from collections.abc import Sequence
from typing import ClassVar

from procrastinate import App

from benchmarks.queue.contestant import Place, Role, Task
from benchmarks.queue.crew import program
from benchmarks.queue.workers.procrastinate import application


class Procrastinate:
    name: ClassVar[str] = "Procrastinate"
    database: ClassVar[str] = "PostgreSQL"
    role: ClassVar[Role] = "peer"
    bulk: ClassVar[bool] = True
    slowness: ClassVar[int] = 10
    durable: ClassVar[bool] = True
    once: ClassVar[bool] = False
    unfinished: ClassVar[str] = "select from procrastinate_jobs where status in ('todo', 'doing')"
    finished: ClassVar[str | None] = (
        "select count(*) from procrastinate_jobs where status = 'succeeded'"
    )
    settle: ClassVar[str] = "analyze"  # without it, half as fast

    def __init__(self, place: Place) -> None:
        self.place = place

    async def prepare(self) -> None:
        app = application(self.place.url, connections=1)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def producers(self, count: int) -> Sequence["ProcrastinateProducer"]:
        app = application(self.place.url, connections=count)
        await app.open_async()
        return [ProcrastinateProducer(app)] * count

    def worker(self) -> Sequence[str]:
        return program("procrastinate")

    def environment(self) -> dict[str, str]:
        return {}


class ProcrastinateProducer:
    """One pool for all callers, with a connection for each."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def enqueue(self, task: Task, argument: int | None = None) -> None:
        arguments = {} if argument is None else {"argument": argument}
        await self._app.configure_task(task).defer_async(**arguments)

    async def enqueue_many(self, task: Task, count: int) -> None:
        await self._app.configure_task(task).batch_defer_async(*[{} for _ in range(count)])

    async def close(self) -> None:
        await self._app.close_async()


QUEUES = (Procrastinate,)
