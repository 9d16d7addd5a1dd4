"""When a worker has done enough."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duly.clock import boottime, sleep
from duly.engine.claim_planner import ClaimPlanner
from duly.engine.worker import Retirement, StopConditions
from duly.model.states import State
from duly.store.store import Store
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
    async with at_work(
        store, work, concurrency=3, conditions=StopConditions(burst=True)
    ) as working:
        await until(working.stop.is_set)
        await working.leave()
    assert set(await states(store, numbers)) == {State.SUCCEEDED}


async def test_a_burst_with_nothing_to_do_ends_at_once(store: Store) -> None:
    async with at_work(store, work, conditions=StopConditions(burst=True)) as working:
        await until(working.stop.is_set, within=2)


async def test_a_burst_waits_for_an_answer_before_it_says_that_there_is_nothing(
    store: Store,
) -> None:
    bench = Bench(store, work)
    planner = ClaimPlanner(store, bench.runner, queues=["default"], tasks=["work"])
    stops: list[bool] = []
    retirement = Retirement(planner, StopConditions(burst=True), stop=lambda: stops.append(True))
    planner.worker, planner.peeked_at, planner.busy = 1, bench.now + 1, 1
    await retirement.tick()
    planner.busy, planner.nudged = 0, True
    await retirement.tick()
    assert stops == []
    planner.nudged = False
    await retirement.tick()
    assert stops == [True]


async def test_a_burst_does_not_wait_for_what_others_must_do(store: Store) -> None:
    await store.jobs.enqueue([call("stranger")])
    async with at_work(store, work, conditions=StopConditions(burst=True)) as working:
        await until(working.stop.is_set, within=2)


async def test_a_worker_for_so_many_jobs_does_no_more(store: Store) -> None:
    numbers = await store.jobs.enqueue([call("work")] * 10)
    async with at_work(store, work, conditions=StopConditions(max_jobs=3)) as working:
        await until(working.stop.is_set)
        await working.leave()
        assert working.worker.runner.outbox.attempts == 3
    found = await states(store, numbers)
    assert (found.count(State.SUCCEEDED), found.count(State.READY)) == (3, 7)


async def test_a_worker_that_has_been_idle_for_long_enough_goes(store: Store) -> None:
    begun = boottime()
    async with at_work(
        store, work, conditions=StopConditions(max_idle=timedelta(seconds=0.3))
    ) as working:
        await until(working.stop.is_set)
        assert boottime() - begun >= 0.3


async def test_a_worker_that_works_is_not_idle(store: Store) -> None:
    go = asyncio.Event()

    async def wait() -> None:
        await go.wait()

    async with at_work(
        store, wait, conditions=StopConditions(max_idle=timedelta(seconds=0.2))
    ) as working:
        [number] = await working.enqueue("wait")
        await until(lambda: working.worker.load() == 1)
        await sleep(0.4)
        assert not working.stop.is_set()
        go.set()
        await working.ended(number)
        await until(working.stop.is_set)


async def test_without_plans_it_stays(store: Store) -> None:
    async with at_work(store, work) as working:
        [number] = await working.enqueue("work")
        await working.ended(number)
        assert not working.stop.is_set()
