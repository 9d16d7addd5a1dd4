"""A queue in which there is too much to be counted says so."""

from collections.abc import AsyncIterator

import pytest

from duly.store.nouns import evidence
from tests.app.test_why import opened
from tests.conformance.world import MINUTE, World
from tests.factories import plan


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
    [depth] = await world.store.evidence.depths()
    assert (depth.ready, depth.blocked, depth.whole) == (1, 3, True)
    monkeypatch.setattr(evidence, "MOST_COUNTED", 2)
    monkeypatch.setattr(evidence, "MOST_LOOKED_AT", 3)
    [depth] = await world.store.evidence.depths()
    assert (depth.ready, depth.blocked, depth.whole) == (1, 2, False)
