"""The facade: the only place where the parts are joined.

A ``Node`` is what runs on each machine: a store, and the services that keep its promises. Any
number of nodes may share a store, and none of them is special.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from duly.engine.dispatcher import Dispatcher
from duly.engine.loop import Loop
from duly.engine.loop import Progress as ServiceProgress
from duly.engine.pruner import Pruner
from duly.engine.reaper import Reaper
from duly.engine.scheduler import Scheduler
from duly.errors import InvalidValue, StoreUnavailable
from duly.events import Emit, nobody
from duly.store.connect import connect, database, place
from duly.store.database import Migration
from duly.store.migrate import Schema, check, migrate, require
from duly.store.protocol import Progress, Retention, Store
from duly.store.sql_store import SqlStore

__all__ = [
    "Health",
    "Node",
    "StoreReport",
    "check_store",
    "connect",
    "migrate_store",
    "open_store",
    "place",
]

# A service whose last good tick is older does not make progress.
LAGGING = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What a store looks like from outside."""

    place: str
    schema: Schema
    progress: Progress | None = None  # None: it has no tables to ask

    @property
    def problem(self) -> str | None:
        """What needs somebody, in a sentence."""
        if self.schema.problem or self.progress is None:
            return self.schema.problem
        if self.progress.faulty:
            return (
                f"{len(self.progress.faulty)} schedules stand still until somebody mends them: "
                f"{', '.join(self.progress.faulty[:5])}"
            )
        return self.progress.problem


@dataclass(frozen=True, slots=True)
class Health:
    """Whether promises are being kept: progress, not whether a process is up."""

    ok: bool
    problem: str | None  # what needs somebody, in a sentence
    unfired_for: timedelta = timedelta(0)
    faulty: Sequence[str] = ()  # schedules that cannot be decided: a restart does not help them
    services: Mapping[str, ServiceProgress] = field(default_factory=dict)


async def migrate_tables(store: SqlStore) -> list[Migration]:
    """Bring the tables of an open store to what this version works with."""
    return await migrate(store.database)


async def migrate_store(
    url: str, *, report: Callable[[Migration], None] | None = None
) -> list[Migration]:
    """Bring the tables of a store to what this version works with."""
    if url == ":memory:":
        raise InvalidValue("a store in memory is gone when it is closed; give the path of a file")
    there = database(url)
    await there.open()
    try:
        return await migrate(there, report=report)
    finally:
        await there.close()


async def check_store(url: str) -> StoreReport:
    """Look at a store that is there; nothing is made or changed."""
    store = connect(url, create=False, writes=False)
    await store.open()
    try:
        schema = await check(store.database)
        progress = await store.upkeep.progress() if schema.ok else None
        return StoreReport(place(url), schema, progress)
    finally:
        await store.close()


class Node:
    """The services of one process, on one store."""

    def __init__(
        self, store: Store, *, emit: Emit = nobody, retention: Retention | None = None
    ) -> None:
        self._store = store
        self._loop = Loop(
            [
                Scheduler(store, emit=emit),
                Dispatcher(store, emit=emit),
                Reaper(store, emit=emit),
                Pruner(store, emit=emit, retention=retention),
            ],
            dice=random.random,
            emit=emit,
        )
        store.listen(self._loop.nudge)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Keep promises until told to stop. The store is open, and stays open."""
        await self._loop.run(stop)

    async def health(self) -> Health:
        """Red as well when the store does not answer: then nobody knows."""
        services = self._loop.progress()
        try:
            progress = await self._store.upkeep.progress()
        except StoreUnavailable as error:
            return Health(ok=False, problem=str(error), services=services)
        lagging = [
            name for name, service in services.items() if service.age > LAGGING and name != "pruner"
        ]
        problem = progress.problem or (f"no progress: {', '.join(lagging)}" if lagging else None)
        return Health(problem is None, problem, progress.unfired_for, progress.faulty, services)


async def open_store(url: str) -> Store:
    """A store that is there, open, and has the tables this version works with."""
    store = connect(url, create=False)
    await store.open()
    try:
        await require(store.database)
    except BaseException:
        await store.close()
        raise
    return store
