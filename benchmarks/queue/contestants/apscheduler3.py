"""APScheduler 3, with its schedules in a database. Two processes would run everything twice."""

import importlib.util
from collections.abc import Sequence
from typing import ClassVar

from benchmarks.queue.contestant import Place, Role
from benchmarks.queue.crew import program

if importlib.util.find_spec("apscheduler") is None:
    raise ModuleNotFoundError(name="apscheduler")


class APScheduler3Postgres:
    name: ClassVar[str] = "APScheduler 3"
    database: ClassVar[str] = "PostgreSQL"
    role: ClassVar[Role] = "peer"
    durable: ClassVar[bool] = True
    nodes: ClassVar[int] = 1
    once: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self.place = place

    async def prepare(self) -> None:
        """Do nothing: the scheduler makes its table."""

    async def schedule(self) -> None:
        """Do nothing: the scheduler stores its schedules when it starts."""

    def worker(self) -> Sequence[str]:
        return program("apscheduler3")

    def environment(self) -> dict[str, str]:
        return {}


class APScheduler3Sqlite(APScheduler3Postgres):
    database: ClassVar[str] = "SQLite"


SCHEDULERS = (APScheduler3Postgres, APScheduler3Sqlite)
