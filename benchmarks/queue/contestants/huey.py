"""Huey on SQLite. It forgets a job when it takes it, so a crash in between loses the job."""

from collections.abc import Sequence
from typing import ClassVar

from huey import Huey  # type: ignore[import-untyped]
from huey.api import TaskWrapper  # type: ignore[import-untyped]

from benchmarks.queue.contestant import Place, Role, Task
from benchmarks.queue.crew import program
from benchmarks.queue.workers.huey import SYNCHRONOUS, application


class HueyFull:
    """Each commit waits for the disk."""

    name: ClassVar[str] = "Huey, full"
    database: ClassVar[str] = "SQLite"
    role: ClassVar[Role] = "peer"
    bulk: ClassVar[bool] = False
    slowness: ClassVar[int] = 2
    durable: ClassVar[bool] = True
    once: ClassVar[bool] = False
    unfinished: ClassVar[str] = "select 1 from task"
    finished: ClassVar[str | None] = None
    settle: ClassVar[str] = ""
    synchronous: ClassVar[str] = "full"

    def __init__(self, place: Place) -> None:
        self.place = place

    async def prepare(self) -> None:
        self._application()

    async def producers(self, count: int) -> Sequence["HueyProducer"]:
        return [HueyProducer(*self._application())] * count

    def worker(self) -> Sequence[str]:
        return program("huey")

    def environment(self) -> dict[str, str]:
        return {SYNCHRONOUS: self.synchronous}

    def _application(self) -> tuple[Huey, dict[str, TaskWrapper]]:
        return application(self.place.url, synchronous=self.synchronous)


class HueyNormal(HueyFull):
    """A crash of the machine loses what was enqueued last."""

    name: ClassVar[str] = "Huey, normal"
    durable: ClassVar[bool] = False
    synchronous: ClassVar[str] = "normal"


class HueyProducer:
    """One connection behind a lock, as Huey has it: threads would only wait for each other."""

    def __init__(self, huey: Huey, tasks: dict[str, TaskWrapper]) -> None:
        self._huey = huey
        self._tasks = tasks

    async def enqueue(self, task: Task, argument: int | None = None) -> None:
        self._tasks[task](argument)

    async def enqueue_many(self, task: Task, count: int) -> None:
        for _ in range(count):
            self._tasks[task](None)

    async def close(self) -> None:
        self._huey.storage.close()


QUEUES = (HueyFull, HueyNormal)
