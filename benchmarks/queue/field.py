"""Who takes part, and one round of one contestant."""

import importlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

from benchmarks.queue.contestant import Contestant, Producer, Queue, Task
from benchmarks.queue.places import Places, Watcher, watcher

# Each module lists its QUEUES and SCHEDULERS.
MODULES = (
    "raw_postgres", "raw_sqlite", "duly", "pgqueuer", "procrastinate", "huey",
    "apscheduler3", "apscheduler4",
)  # fmt: skip

C = TypeVar("C", bound=Contestant)


def installed() -> tuple[list[ModuleType], list[str]]:
    """Return the modules of contestants, and a sentence about each that is not installed."""
    found, missing = [], []
    for name in MODULES:
        try:
            found.append(importlib.import_module(f"benchmarks.queue.contestants.{name}"))
        except ModuleNotFoundError as error:
            if (error.name or "").startswith(("benchmarks", "duly")):
                raise
            missing.append(f"{name} was not measured: {error.name} is not installed.")
    return found, missing


def contestants(
    kinds: Sequence[type[C]], only: Sequence[str], servers: Sequence[str]
) -> list[type[C]]:
    """Return the contestants whose names have one of the words, once for each server.

    Neighbours in the list share a database, so that their rounds are close to each other in time.
    """
    newest = [*servers[-1:], "SQLite"]
    found = [
        on(kind, one)
        for one in [*servers, "SQLite"]
        for kind in kinds
        if one.startswith(kind.database) and (one in newest or not kind.once)
    ]
    words = [word.lower() for word in only or [""]]
    return [kind for kind in found if any(word in kind.name.lower() for word in words)]


def on(kind: type[C], database: str) -> type[C]:
    """The contestant on one database, which is part of its name."""
    return type(kind.__name__, (kind,), {"database": database, "name": f"{kind.name}, {database}"})


@dataclass(frozen=True, slots=True)
class Round:
    """A queue in a database of its own, with a caller and somebody who watches."""

    contestant: Queue
    producer: Producer
    watcher: Watcher

    async def fill(self, task: Task, count: int) -> None:
        await self.producer.enqueue_many(task, count)
        self.watcher.settle()


@asynccontextmanager
async def fresh_round(places: Places, kind: type[Queue]) -> AsyncIterator[Round]:
    with places.fresh(kind.database) as place:
        contestant = kind(place)
        await contestant.prepare()
        [producer] = await contestant.producers(1)
        with watching(contestant) as watch:
            try:
                yield Round(contestant, producer, watch)
            finally:
                await producer.close()


@contextmanager
def watching(contestant: Queue) -> Iterator[Watcher]:
    found = watcher(contestant)
    try:
        yield found
    finally:
        found.close()
