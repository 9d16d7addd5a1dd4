"""When a worker has done enough."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duly.clock import boottime, sleep
from duly.engine.claim_planner import Desk
from duly.engine.retirement import Plans, Retirement
from duly.model.states import State
from duly.store.protocol import Store
from tests.engine.workshop import Bench, at_work, memory_store, until
from tests.factories import call


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


async def work() -> None:
    pass


async def states(store: Store, numbers: list[int]) -> list[State]:
    return [(await store.jobs.get(number)).state for number in numbers]


async def test_a_burst_ends_when_everything_is_done(store: Store) -> None:
    low = call("work", priority=-50)
    numbers = await store.jobs.enqueue([call("work")] * 30 + [low, call("work", priority=-100)])
    async with at_work(store, work, slots=3, plans=Plans(burst=True)) as shift:
        await until(shift.stop.is_set)
        await shift.leave()
    assert set(await states(store, numbers)) == {State.SUCCEEDED}


async def test_a_burst_with_nothing_to_do_ends_at_once(store: Store) -> None:
    async with at_work(store, work, plans=Plans(burst=True)) as shift:
        await until(shift.stop.is_set, within=2)


async def test_a_burst_waits_for_an_answer_before_it_says_that_there_is_nothing(
    store: Store,
) -> None:
    bench = Bench(store, work)
    desk = Desk(store, bench.crew, queues=["default"], tasks=["work"])
    stops: list[bool] = []
    retirement = Retirement(desk, Plans(burst=True), stop=lambda: stops.append(True))
    desk.worker, desk.peeked_at, desk.busy = 1, bench.now + 1, 1
    await retirement.tick()
    desk.busy, desk.nudged = 0, True
    await retirement.tick()
    assert stops == []
    desk.nudged = False
    await retirement.tick()
    assert stops == [True]


async def test_a_burst_does_not_wait_for_what_others_must_do(store: Store) -> None:
    await store.jobs.enqueue([call("stranger")])
    async with at_work(store, work, plans=Plans(burst=True)) as shift:
        await until(shift.stop.is_set, within=2)


async def test_a_worker_for_so_many_jobs_does_no_more(store: Store) -> None:
    numbers = await store.jobs.enqueue([call("work")] * 10)
    async with at_work(store, work, plans=Plans(max_jobs=3)) as shift:
        await until(shift.stop.is_set)
        await shift.leave()
        assert shift.worker.crew.ends.attempts == 3
    found = await states(store, numbers)
    assert (found.count(State.SUCCEEDED), found.count(State.READY)) == (3, 7)


async def test_a_worker_that_has_been_idle_for_long_enough_goes(store: Store) -> None:
    begun = boottime()
    async with at_work(store, work, plans=Plans(max_idle=timedelta(seconds=0.3))) as shift:
        await until(shift.stop.is_set)
        assert boottime() - begun >= 0.3


async def test_a_worker_that_works_is_not_idle(store: Store) -> None:
    go = asyncio.Event()

    async def wait() -> None:
        await go.wait()

    async with at_work(store, wait, plans=Plans(max_idle=timedelta(seconds=0.2))) as shift:
        [number] = await shift.enqueue("wait")
        await until(lambda: shift.worker.load() == 1)
        await sleep(0.4)
        assert not shift.stop.is_set()
        go.set()
        await shift.ended(number)
        await until(shift.stop.is_set)


async def test_without_plans_it_stays(store: Store) -> None:
    async with at_work(store, work) as shift:
        [number] = await shift.enqueue("work")
        await shift.ended(number)
        assert not shift.stop.is_set()
