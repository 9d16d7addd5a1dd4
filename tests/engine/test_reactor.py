"""The reactor looks at a batch, goes on while there is more, and then rests until it is woken."""

from collections.abc import AsyncIterator

import pytest

from duly.clock import now
from duly.engine.maintenance import Reactor
from duly.engine.timekeeper import A_WHILE, NO_REST
from duly.errors import Busy
from duly.events import EngineEvent, EventsHandled
from duly.model.event import Emitted
from duly.store.events import Reacted
from duly.store.store import Store
from duly.store.values import EVENTS
from duly.testing.clock import VirtualClock
from tests.conformance.flow_events import APPROVAL, waiting
from tests.conformance.flow_plans import states
from tests.conformance.world import World
from tests.engine.workshop import memory_store
from tests.factories import plan


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


async def test_it_goes_on_while_there_is_more_and_says_what_it_did(store: Store) -> None:
    said: list[EngineEvent] = []
    reactor = Reactor(store, emit=said.append, batch=2)
    await store.schedules.add([plan(rule="on a")])
    await store.events.emit([Emitted(name="a"), Emitted(name="a"), Emitted(name="b")])
    assert [await reactor.tick() for _ in range(3)] == [NO_REST, A_WHILE, A_WHILE]
    assert said == [
        EventsHandled(events=2, jobs=2, withdrawn=0),
        EventsHandled(events=1, jobs=0, withdrawn=0),
    ]


async def test_steps_are_answered_also_while_somebody_holds_what_would_react(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def held(*, limit: int, **_: object) -> Reacted:
        raise Busy(f"{limit} are held")

    world = World(store, VirtualClock(now()))
    flow = await waiting(world)
    await store.events.emit([Emitted(name=APPROVAL)])
    monkeypatch.setattr(store.events, "react", held)
    with pytest.raises(Busy):
        await Reactor(store).tick()
    assert await states(world, flow) == ["succeeded", "succeeded", "running"]


async def test_whoever_emits_wakes_it(store: Store) -> None:
    heard: list[str] = []
    store.listen(heard.append)
    await store.events.emit([Emitted(name="a")])
    assert set(heard) & Reactor.topics == {EVENTS}


async def test_what_it_starts_wakes_the_workers_or_the_dispatcher(store: Store) -> None:
    heard: list[str] = []
    await store.schedules.add([plan(rule="on a", queue="mail"), plan("b", "on b run_after=1h")])
    for name, topic in (("a", "ready:mail"), ("b", "jobs")):
        await store.events.emit([Emitted(name=name)])
        store.listen(heard.append)
        await Reactor(store).tick()
        assert topic in heard
        heard.clear()
