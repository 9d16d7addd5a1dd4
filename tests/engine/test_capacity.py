"""An executor that runs only so many jobs at once holds no more, and no other job up."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from duly.clock import boottime, sleep
from duly.engine.capacity import ExecutorSlots
from duly.engine.execution import StopReason
from duly.engine.executors import Executor
from duly.engine.executors.in_process import CoroutineExecutor, ThreadExecutor
from duly.events import JobEnded, JobStarted
from duly.model.states import Move, State
from duly.store.store import Store
from tests.engine.workshop import Bench, WorkingWorker, at_work, memory_store, until


class Few(CoroutineExecutor):
    """Like processes: there are only so many."""

    concurrency = 2


def executors() -> dict[str, Executor]:
    return {"async": Few(), "thread": ThreadExecutor()}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


async def forever() -> None:
    await asyncio.Event().wait()


def five() -> int:
    return 5


async def test_who_finds_no_seat_is_passed_by_those_behind_and_soon_given_back(
    store: Store,
) -> None:
    bench = Bench(store, forever, five, executors=executors())
    jobs = await bench.claimed(*["forever"] * 4, "five")
    bench.runner.take(jobs)
    assert [event.task for event in bench.heard(JobStarted)] == ["forever", "forever", "five"]
    await until(lambda: len(bench.runner.outbox.settlements) == 2)
    for settlement in bench.runner.outbox.settlements:
        assert settlement.verdict.move is Move.GIVE_BACK
        assert "no process is free here" in settlement.verdict.reason
    bench.runner.stop_all(StopReason.INTERRUPTED)
    await until(lambda: not bench.runner.running)
    await bench.threads.close()


async def test_a_seat_that_becomes_free_goes_to_the_next_in_line(store: Store) -> None:
    go = asyncio.Event()

    async def short() -> None:
        await go.wait()

    bench = Bench(store, short, executors=executors())
    bench.runner.take(await bench.claimed(*["short"] * 4))
    go.set()
    await until(lambda: len(bench.runner.outbox.done) == 4)
    assert bench.runner.outbox.settlements == []


async def test_jobs_are_left_to_workers_that_have_a_seat_for_them(store: Store) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(at_work(store, forever, executors=executors()))
        numbers = await first.enqueue("forever", times=5)
        await until(lambda: len(first.worker.runner.running) == 2)
        second = await stack.enter_async_context(
            at_work(store, forever, executors=executors(), name="second")
        )
        await until(lambda: len(second.worker.runner.running) == 2)
        await until(
            lambda: first.worker.planner.is_idle or not first.worker.runner.outbox.settlements
        )
        await sleep(0.3)  # the one that is left changes hands no more
        states = Counter([(await store.jobs.get(number)).state for number in numbers])
        assert states == {State.RUNNING: 4, State.READY: 1}
        assert returned(first) + returned(second) <= 5


async def test_full_seats_keep_nobody_else_waiting(store: Store) -> None:
    async with at_work(store, forever, five, executors=executors(), concurrency=3) as working:
        await working.enqueue("forever", times=20)
        await until(lambda: len(working.worker.runner.running) == 2)
        before = boottime()
        for number in await working.enqueue("five", times=5):
            await working.ended(number)
        assert boottime() - before < 1


async def test_a_seat_that_becomes_free_is_taken_before_anybody_would_have_looked(
    store: Store,
) -> None:

    async def short() -> None:
        await sleep(0.1)

    async with at_work(store, short, five, executors=executors()) as working:
        before = boottime()
        for number in await working.enqueue("short", times=20):
            await working.ended(number)
        assert boottime() - before < 2  # ten rounds of 0.1 s; with a look every 0.4 s it would be 5


async def test_a_flood_of_short_jobs_does_not_go_back_and_forth(store: Store) -> None:
    async def brief() -> None:
        await sleep(0.001)

    async with at_work(store, brief, executors=executors()) as working:
        for number in await working.enqueue("brief", times=500):
            await working.ended(number)
        assert returned(working) < 50  # of five hundred; every one of them would go back otherwise


def test_as_many_wait_behind_full_seats_as_will_be_free_in_a_moment() -> None:
    now = 0.0
    seats = ExecutorSlots(2, lambda: now)
    seats.taken = 2
    assert seats.useful == 0
    for _ in range(100):
        now += 0.01
        seats.taken += 2
        seats.leave(0.01)
        seats.leave(0.01)
    assert 0 < seats.useful <= 10  # 200 a second


def returned(working: WorkingWorker) -> int:
    return sum(event.outcome == "returned" for event in working.heard(JobEnded))
