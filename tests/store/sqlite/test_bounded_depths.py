"""A queue in which there is too much to be counted says so."""

from collections.abc import AsyncIterator

import pytest

from duly.model.outcome import Raised
from duly.store import activity
from tests.app.test_why import opened
from tests.conformance.world import MINUTE, World
from tests.factories import call, plan


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(":memory:") as there:
        yield there


async def test_blocked_jobs_that_were_not_all_looked_at_are_not_the_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add(plan(overlap="queue_all"))
    for _ in range(4):
        await world.fire_after(MINUTE)
    [depth] = await world.store.activity.depths()
    assert (depth.ready, depth.blocked, depth.whole) == (1, 3, True)
    monkeypatch.setattr(activity, "MOST_COUNTED", 2)
    monkeypatch.setattr(activity, "MOST_LOOKED_AT", 3)
    [depth] = await world.store.activity.depths()
    assert (depth.ready, depth.blocked, depth.whole) == (1, 2, False)


async def test_ended_jobs_that_were_not_all_counted_are_not_the_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.enqueue(*[call(queue="old")] * 2, *[call()] * 3)
    for queue in ("old", "old", "default", "default"):
        [job] = await world.claim(1, queue=queue)
        await world.end(job)
        world.wait(MINUTE)
    await world.end(await world.begin(), Raised("Oops"))
    monkeypatch.setattr(activity, "MOST_COUNTED", 2)
    monkeypatch.setattr(activity, "MOST_LOOKED_AT", 3)
    default, old = await world.store.activity.depths(ended=True)
    assert (default.succeeded, old.succeeded) == (2, 1)
    assert (old.ended_whole, default.failed, default.failed_whole) == (False, 1, True)
