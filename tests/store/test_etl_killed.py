"""A nightly ETL, whose worker is killed at every statement boundary in turn: it completes exactly.

Before each statement, before each commit and behind each commit the process dies once: nothing of
what it had begun is written, and what it had written stays. Another worker goes on from there.
Whatever was run twice for that, every part of every step has succeeded once, and the result is the
one of an undisturbed night.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from duly import Duly, Step
from duly.model.job import StoredJob
from duly.model.outcome import Opened, Outcome, Raised, Succeeded
from duly.model.states import State
from duly.store.database import Ask, Database, Dialect, Migration, Operation, Row, Start, T
from duly.store.store import SqlStore
from duly.testing.clock import VirtualClock
from tests.conformance import Make
from tests.conformance.world import START, World
from tests.factories import call

duly = Duly(":memory:")
broken = False  # whether one of the transformations cannot be done tonight


@duly.task
def extract() -> list[int]:
    return [1, 2, 3]


@duly.task
def transform(row: int, factor: int) -> int:
    if broken and row == 2:
        raise ValueError("the rate is not known yet")
    return row * factor


@duly.task
def load(a: list[int], b: int, c: int) -> int:
    return sum(a) + b + c


@duly.task
def tidy() -> None: ...


@duly.flow
def etl() -> Step[int]:
    rows = extract.step()
    a = transform.map(rows.result, factor=2)
    b, c = transform.step(7, 2), transform.step(8, 2)
    rows >> [b, c]
    done = load.step(a.result, b.result, c.result)
    done >> tidy.step().when("all_done")
    return done


RESULT = 2 * (1 + 2 + 3) + 2 * 7 + 2 * 8
PARTS = {"extract": 1, "transform": 5, "load": 1, "tidy": 1}


class Killed(Exception):
    """The process is gone."""


class Mortal:
    """A database whose client dies at the ``last`` of its boundaries."""

    is_listening = False

    def __init__(self, inside: Database, last: int) -> None:
        self.dialect: Dialect = inside.dialect
        self.passed = 0
        self._inside = inside
        self._last = last

    async def write(self, start: Start[T], /) -> T:
        result = await self._inside.write(lambda: self._mortal(start()))
        self._pass()  # it is written, and whoever asked for it never hears of it
        return result

    async def write_one(self, ask: Ask, /) -> list[Row]:
        self._pass()
        result = await self._inside.write_one(ask)
        self._pass()
        return result

    async def read(self, start: Start[T], /) -> T:
        return await self._inside.read(start)

    def nudge(self, topics: Sequence[str], /) -> None: ...
    def listen(self, listener: Callable[[str], None], /) -> None: ...
    async def applied(self) -> list[int]:
        raise NotImplementedError

    async def minimum(self) -> int:
        raise NotImplementedError

    async def apply(self, migration: Migration, /) -> bool:
        raise NotImplementedError

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    def _mortal(self, operation: Operation[T]) -> Operation[T]:
        try:
            ask = next(operation)
            while True:
                self._pass()
                ask = operation.send((yield ask))
        except StopIteration as end:
            self._pass()  # nothing of it is committed
            result: T = end.value
            return result

    def _pass(self) -> None:
        self.passed += 1
        if self.passed == self._last:
            raise Killed


async def night(world: World, store: SqlStore) -> None:
    """A worker, until there is nothing to do."""
    worker = await world.new_worker(lease=timedelta(seconds=15))
    there = World(store, world.clock)
    while jobs := await there.claim(10, worker=worker, tasks=tuple(duly.registry.names())):
        for job in jobs:
            await there.end(job, came_to(job))


def came_to(job: StoredJob) -> Outcome:
    definition = duly.registry.get(job.task)
    if definition.graph is not None:
        return Opened(duly.registry.flow_plan(definition))
    try:
        value = definition.function(**definition.signature.decode(job.args))
    except ValueError as error:
        return Raised("ValueError", str(error), permanent=True)
    return Succeeded(definition.signature.encode_result(value))


async def succeeded(world: World) -> Counter[str]:
    """How often each task has succeeded as a step; each part once, but for what tidies up."""
    found = [job for job in await world.store.jobs.ended(State.SUCCEEDED) if job.step is not None]
    places = Counter((job.step, job.part) for job in found if job.task != "tidy")
    assert set(places.values()) <= {1}, places
    return Counter(job.task for job in found)


async def lived(make: Make, last: int) -> bool:
    """A night in which the worker dies at a boundary, and another goes on: whether it died."""
    clock = VirtualClock(START)
    async with make(clock) as store:
        world = World(store, clock)
        number = await world.enqueue(call("etl"))
        mortal = Mortal(world.database, last)
        try:
            await night(world, SqlStore(mortal))
        except Killed:
            world.wait(timedelta(minutes=1))
            await world.take_back()
            await night(world, SqlStore(world.database))
        flow = await world.job(number)
        assert (flow.state, flow.result) == (State.SUCCEEDED, str(RESULT))
        assert await succeeded(world) == PARTS
        assert await world.live() == []
        return mortal.passed >= last


async def nights(make: Make, *, every: int = 1) -> int:
    """Nights until nobody is killed any more: the boundary of the last."""
    last = 1
    while await lived(make, last):
        last += every
    return last


async def test_in_memory(sqlite_memory: Make) -> None:
    assert await nights(sqlite_memory, every=7) > 100


@pytest.mark.thorough("a night for each of some hundred boundaries")
async def test_in_memory_at_every_boundary(sqlite_memory: Make) -> None:
    assert await nights(sqlite_memory) > 100


async def test_in_postgresql(postgres_with_all_features: Make) -> None:
    """The same statements at the same boundaries; some of them, where a night takes longer."""
    assert await nights(postgres_with_all_features, every=11) > 100


async def test_it_is_retried_from_the_step_that_failed(
    sqlite_memory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock(START)
    async with sqlite_memory(clock) as store:
        world = World(store, clock)
        number = await world.enqueue(call("etl"))
        monkeypatch.setattr(f"{__name__}.broken", True)
        await night(world, SqlStore(world.database))
        await world.dispatch()
        await night(world, SqlStore(world.database))
        flow = await world.job(number)
        assert flow.state is State.FAILED
        assert "the rate is not known yet" in flow.reason
        before = await succeeded(world)
        assert before["extract"] == 1
        assert before["tidy"] == 1
        monkeypatch.setattr(f"{__name__}.broken", False)
        await store.jobs.retry(number)
        await night(world, SqlStore(world.database))
        again = await world.job(number)
        assert (again.state, again.result) == (State.SUCCEEDED, str(RESULT))
        assert await succeeded(world) == PARTS | {"tidy": 2}, "nothing else is done again"
