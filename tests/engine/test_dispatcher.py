"""Jobs that waited for a worker are set free when one comes, and keep nobody else waiting."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duly.clock import now
from duly.engine.maintenance import FITTING_SECONDS, Dispatcher
from duly.engine.timekeeper import NO_REST
from duly.events import EngineEvent, JobsReadied
from duly.model.outcome import Mismatched
from duly.model.states import State
from duly.policy.verdict import Tried, judge
from duly.store.store import Store
from duly.store.values import WORKERS, ClaimRequest, Settlement
from tests.engine.workshop import LONG_LEASE, memory_store
from tests.factories import call, profile


class Desk:
    """A dispatcher, what it says, and a clock that stands still."""

    def __init__(self, store: Store, *, batch: int = 2) -> None:
        self.store = store
        self.said: list[EngineEvent] = []
        self.time = 1_000.0
        self.dispatcher = Dispatcher(
            store, emit=self.said.append, batch=batch, steady=lambda: self.time
        )

    async def set_aside(self, count: int) -> None:
        """Jobs whose task nobody knows."""
        await self.store.jobs.enqueue([call("strange") for _ in range(count)])
        held = await self.store.maintenance.hold_unknown(patience=timedelta(0), limit=count)
        assert held == count

    async def park(self) -> None:
        """Let a worker find that a job does not fit its form of the task."""
        old = profile(signatures={"strange": "old"})
        worker = await self.store.work.register(old, lease=LONG_LEASE)
        await self.dispatcher.tick()
        request = ClaimRequest(worker=worker.id, queue="default", tasks=["strange"], limit=1)
        [job] = (await self.store.work.claim(request)).jobs
        verdict = judge(Tried.of(job), Mismatched("it has two", "old"), now(), dice=0.5)
        await self.store.work.settle([Settlement(job=job, verdict=verdict, outcome="mismatched")])

    async def ready(self) -> int:
        return sum(job.state is State.READY for job in await self.store.jobs.page())


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


@pytest.fixture
async def planner(store: Store) -> Desk:
    planner = Desk(store)
    await planner.set_aside(5)
    await planner.dispatcher.tick()
    return planner


async def test_when_a_worker_comes_those_who_wait_for_it_are_set_free_at_once(
    planner: Desk,
) -> None:
    await planner.store.work.register(profile(tasks=["strange"]), lease=LONG_LEASE)
    await planner.dispatcher.tick()
    assert await planner.ready() > 0


async def test_a_batch_at_a_time_without_a_rest_between_them(planner: Desk) -> None:
    await planner.store.work.register(profile(tasks=["strange"]), lease=LONG_LEASE)
    rests = []
    for count in (2, 4, 5):
        rests.append(await planner.dispatcher.tick())
        assert await planner.ready() == count
    assert rests[:2] == [NO_REST, NO_REST]
    assert rests[2] > NO_REST
    assert planner.said == [JobsReadied(count=2), JobsReadied(count=2), JobsReadied(count=1)]


async def test_who_is_parked_without_a_word_is_found_after_a_moment(planner: Desk) -> None:
    """By an old worker, after the new one came: nobody comes any more, and nobody tells."""
    await planner.store.work.register(profile(tasks=["strange"]), lease=LONG_LEASE)
    for _ in range(3):
        await planner.dispatcher.tick()
    assert await planner.ready() == 5
    await planner.park()
    await planner.dispatcher.tick()
    assert await planner.ready() == 4
    planner.time += FITTING_SECONDS
    await planner.dispatcher.tick()
    assert await planner.ready() == 5


def test_it_is_woken_when_a_worker_comes(store: Store) -> None:
    assert WORKERS in Dispatcher(store).topics
