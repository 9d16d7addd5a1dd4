"""Who takes part, and one round of one contestant."""

import importlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from benchmarks.queue.contestant import Contestant, Producer, Task
from benchmarks.queue.places import Places, Watcher, watcher

MODULES = ("raw_postgres", "raw_sqlite", "duly", "pgqueuer", "procrastinate", "huey")


def contestants(only: Sequence[str], servers: Sequence[str]) -> list[type[Contestant]]:
    """Return the installed contestants whose names have one of the words, once for each server.

    Neighbours in the list share a database, so that their rounds are close to each other in time.
    """
    found: list[type[Contestant]] = []
    for name in MODULES:
        try:
            module = importlib.import_module(f"benchmarks.queue.contestants.{name}")
        except ModuleNotFoundError as missing:
            if (missing.name or "").startswith(("benchmarks", "duly")):
                raise
            print(f"left out: {name}, since {missing.name} is not installed")
            continue
        found += module.CONTESTANTS
    databases = [*servers, "SQLite"]
    found = [on(kind, one) for one in databases for kind in found if one.startswith(kind.database)]
    words = [word.lower() for word in only or [""]]
    return [kind for kind in found if any(word in kind.name.lower() for word in words)]


def on(kind: type[Contestant], database: str) -> type[Contestant]:
    """The contestant on one database, which is part of its name."""
    return type(kind.__name__, (kind,), {"database": database, "name": f"{kind.name}, {database}"})


@dataclass(frozen=True, slots=True)
class Round:
    """A contestant in a database of its own, with a caller and somebody who watches."""

    contestant: Contestant
    producer: Producer
    watcher: Watcher

    async def fill(self, task: Task, count: int) -> None:
        await self.producer.enqueue_many(task, count)
        self.watcher.settle()


@asynccontextmanager
async def fresh_round(places: Places, kind: type[Contestant]) -> AsyncIterator[Round]:
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
def watching(contestant: Contestant) -> Iterator[Watcher]:
    found = watcher(contestant)
    try:
        yield found
    finally:
        found.close()
