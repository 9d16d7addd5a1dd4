"""Remote jobs whose jobs ended while no worker held them. The engine is the test's own."""

from collections.abc import AsyncIterator

import pytest

from duly.engine.executors.on_engine import family_of
from duly.engine.leftovers import EVERY, Leftovers
from duly.engine.maintenance import Reaper
from duly.errors import EngineUnavailable, StoreUnavailable
from duly.events import EngineEvent, RemoteJobEnded, RemoteJobsUnseen
from duly.instants import to_us
from duly.model.states import State
from duly.store.store import Store
from duly.store.values import SHELVES, ClaimRequest
from tests.engine.executors.test_on_engine import TestEngine, heavy
from tests.engine.workshop import (
    LONG_LEASE,
    Line,
    at_work,
    known,
    memory_store,
    raising,
    until,
    until_cancelled,
)
from tests.engines.test_kubernetes import job_for_engine
from tests.factories import call, profile


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


async def left_behind(store: Store, engine: TestEngine) -> int:
    """A job that waits while its remote job runs: its worker has stopped."""
    async with at_work(store, heavy(engine)) as worker:
        [number] = await worker.enqueue("crunch")
        await until(lambda: len(engine.jobs) == 1)
        await worker.leave(cold=True)
    assert len(engine.running) == 1
    return number


async def lost_too_often(store: Store, engine: TestEngine) -> int:
    """A job that has failed because three workers died of it; its remote job runs."""
    [number] = await store.jobs.enqueue([call("crunch")])
    while (job := await store.jobs.get(number)).state is not State.FAILED:
        worker = (await store.work.register(profile(tasks=("crunch",)), lease=LONG_LEASE)).id
        for shelf in SHELVES:
            asked = ClaimRequest(
                worker=worker, queue="default", tasks=("crunch",), limit=1, shelf=shelf
            )
            await store.work.claim(asked)
        await store.work.end_lease(worker)
        await Reaper(store).tick()
    family = family_of(job.id, to_us(job.created_at), job.task)
    engine.jobs.append(job_for_engine(key=f"{family}1-0123456789"))
    return number


def leftovers(store: Store, engine: TestEngine) -> tuple[Leftovers, list[EngineEvent]]:
    heard: list[EngineEvent] = []
    return Leftovers(store, known(heavy(engine)), emit=heard.append), heard


async def test_a_remote_job_is_ended_if_its_job_was_cancelled_while_no_worker_held_it(
    store: Store,
) -> None:
    engine = TestEngine()
    number = await left_behind(store, engine)
    looking, heard = leftovers(store, engine)
    await looking.tick()
    assert engine.running  # the next worker waits for it
    assert await store.jobs.cancel(number, reason="not needed") is State.CANCELLED
    assert await looking.tick() == EVERY
    assert not engine.running
    assert heard == [RemoteJobEnded(job=number, key=engine.jobs[0].key)]
    await looking.tick()
    assert len(engine.ended) == 1


async def test_the_first_worker_that_comes_ends_it(store: Store) -> None:
    engine = TestEngine()
    await store.jobs.cancel(await left_behind(store, engine), reason="not needed")
    async with at_work(store, heavy(engine)):
        await until(lambda: not engine.running)


async def test_a_remote_job_is_ended_if_its_job_was_lost_too_often(store: Store) -> None:
    engine = TestEngine()
    await lost_too_often(store, engine)
    await leftovers(store, engine)[0].tick()
    assert not engine.running


async def test_a_job_that_never_ran_or_that_its_worker_has_ended_is_not_asked_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TestEngine("no report")
    async with at_work(store, heavy(engine, retry=None)) as worker:
        [failed] = await worker.enqueue("crunch")
        assert (await worker.ended(failed)).state is State.FAILED
        await worker.leave(cold=True)
        [waiting] = await worker.enqueue("crunch")
    await store.jobs.cancel(waiting, reason="not needed")

    async def refuse(family: str) -> list[str]:
        raise AssertionError(f"{family} is asked for")

    monkeypatch.setattr(engine, "keys", refuse)
    looking, heard = leftovers(store, engine)
    await looking.tick()
    assert heard == []


async def test_a_job_that_is_retried_by_hand_meanwhile_keeps_its_remote_job(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TestEngine()
    number = await lost_too_often(store, engine)
    found = engine.keys

    async def retried(family: str) -> list[str]:
        await store.jobs.retry(number)
        return await found(family)

    monkeypatch.setattr(engine, "keys", retried)
    looking, heard = leftovers(store, engine)
    await looking.tick()
    assert heard == []
    assert engine.running


async def test_an_engine_that_does_not_answer_is_asked_again_and_a_lost_store_is_the_loops_matter(
    store: Store,
) -> None:
    engine = TestEngine()
    await store.jobs.cancel(await left_behind(store, engine), reason="not needed")
    line = Line(store)
    looking, heard = leftovers(line.store, engine)

    def refuse() -> None:
        raise EngineUnavailable("no answer")

    engine.ending = refuse
    await looking.tick()
    assert heard == [RemoteJobsUnseen(task="crunch", problem="no answer")]
    line.faults["jobs.find"] = raising(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        await looking.tick()
    line.faults.clear()
    engine.ending = lambda: None
    await looking.tick()
    assert not engine.running


async def test_an_end_that_takes_longer_than_a_tick_is_waited_for_in_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.engine.leftovers.LONGEST_LOOK", 0.05)
    engine = TestEngine()
    await store.jobs.cancel(await left_behind(store, engine), reason="not needed")
    looking, heard = leftovers(store, engine)
    monkeypatch.setattr(engine, "end", lambda *_: until(lambda: False))
    await looking.tick()
    assert heard == [RemoteJobsUnseen(task="crunch", problem="no answer in time")]
    monkeypatch.undo()
    await looking.tick()
    assert not engine.running


async def test_a_worker_without_engines_does_not_look(store: Store) -> None:
    async with at_work(store, until_cancelled) as worker:
        assert "leftovers" not in [service.name for service in worker.worker.services]
