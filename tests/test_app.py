"""Health is whether due moments are fired, not whether a process is up."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from duly.app import Node, check_store, connect, migrate_store, open_store
from duly.clock import now, sleep
from duly.errors import SchemaMismatch, StoreUnavailable
from duly.events import EngineEvent, SchedulesFired
from duly.model.schedule import Plan
from duly.policy.decision import Facts, Firing
from duly.policy.firing import decide


@pytest.fixture
async def url(tmp_path: Path) -> str:
    url = str(tmp_path / "duly.db")
    await migrate_store(url)
    return url


async def add_overdue(url: str) -> None:
    """A schedule that has been due for an hour, because everybody was away."""
    store = connect(url, clock=lambda: now() - timedelta(hours=1))
    await store.open()
    await store.schedules.add([Plan(name="minutely", rule="every 1m", task="work")])
    await store.close()


async def test_a_moment_that_nobody_fires_needs_somebody(url: str) -> None:
    assert (await check_store(url)).problem is None
    await add_overdue(url)
    problem = (await check_store(url)).problem
    assert problem is not None
    assert "has not been fired: is a scheduler running?" in problem


async def test_a_node_is_unhealthy_until_what_is_due_is_fired(url: str) -> None:
    await add_overdue(url)
    store = await open_store(url)
    fired, stop = asyncio.Event(), asyncio.Event()

    def hear(event: EngineEvent) -> None:
        if isinstance(event, SchedulesFired):
            fired.set()

    node = Node(store, emit=hear)
    assert not (await node.health()).ok
    running = asyncio.create_task(node.run(stop))
    await fired.wait()
    health = await node.health()
    assert (health.ok, health.unfired_for) == (True, timedelta(0))
    services = {
        "scheduler", "dispatcher", "reaper", "pruner", "death watch", "reactor", "timekeeper",
        "meter",
    }  # fmt: skip
    assert set(health.services) == services
    stop.set()
    await running
    await store.close()


async def test_a_schedule_added_by_another_process_is_fired_on_time(url: str) -> None:
    """The node rests until its next moment, and a nudge wakes it for an earlier one."""
    store, other = await open_store(url), await open_store(url)
    heard, stop = asyncio.Queue[SchedulesFired](), asyncio.Event()
    node = Node(
        store, emit=lambda e: heard.put_nowait(e) if isinstance(e, SchedulesFired) else None
    )
    running = asyncio.create_task(node.run(stop))
    await other.schedules.add([Plan(name="soon", rule="every 1s", task="work")])
    assert (await heard.get()).fires == 1
    stop.set()
    await running
    await store.close()
    await other.close()


async def test_a_store_without_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(SchemaMismatch, match="run duly db migrate"):
        await open_store(str(path))


async def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no database at"):
        await open_store(str(tmp_path / "typo.db"))
    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))


async def test_a_schedule_that_stands_still_needs_somebody(url: str) -> None:
    store = await open_store(url)
    await store.schedules.add([Plan(name="broken", rule="every 1s", task="work")])

    def undecided(facts: Facts, moment: datetime) -> Firing:
        raise ValueError(f"{facts.schedule.plan.name} at {moment}")

    while not (await store.ledger.fire(undecided, limit=1, trust=lambda _: True)).faults:
        await sleep(0.05)
    assert (await Node(store).health()).faulty == ["broken"]
    await store.close()
    problem = (await check_store(url)).problem
    assert problem is not None
    assert "do not fire until repaired: broken" in problem


async def test_a_clock_that_jumps_ahead_fires_nothing(url: str) -> None:
    """Else every cursor would stand in the future, and nothing be fired until it comes."""
    store = await open_store(url)
    await store.schedules.add([Plan(name="secondly", rule="every 1s", task="work")])
    ahead = connect(url, clock=lambda: now() + timedelta(days=400))
    await ahead.open()
    done = await ahead.ledger.fire(decide, limit=10, trust=lambda _: False)
    assert (done.distrusted, done.fires) == (True, 0)
    assert (await store.schedules.get("secondly")).cursor <= now()
    await ahead.close()
    await store.close()
