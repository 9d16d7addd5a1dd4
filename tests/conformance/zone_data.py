"""Nodes with different zone data: the newer decide, the older leave it to them, for a while."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from duly.policy.decision import Facts, Firing
from duly.policy.firing import decide
from duly.rules import zone_data_version
from duly.store import ledger
from duly.store.ledger import FiringResult
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, START, World
from tests.factories import plan

OLDER, NEWER = "1999a", "2999z"
SECOND = timedelta(seconds=1)


async def _fire_with(
    world: World, release: str, decide: Callable[[Facts, datetime], Firing] = decide
) -> FiringResult:
    """Fire as a node would that has this release."""
    return await world.write(
        lambda ids: ledger.fire(decide, limit=10, zone_data=release, ids=ids, trust=lambda _: True)
    )


async def _age(
    world: World, count: int, decide: Callable[[Facts, datetime], Firing] = decide
) -> None:
    """Let a node with older data fire what nobody else has fired for long."""
    world.wait(3 * MINUTE)
    equal((await _fire_with(world, OLDER, decide)).schedules, count)


@check
async def a_next_moment_carries_the_release_it_was_computed_with(world: World) -> None:
    equal((await world.add(plan())).zone_data, zone_data_version())
    world.wait(MINUTE)
    await _fire_with(world, NEWER)
    equal((await world.schedule()).zone_data, NEWER)


@check
async def what_older_data_computed_is_computed_anew_and_said_to_be(world: World) -> None:
    def wrong(facts: Facts, now: datetime) -> Firing:
        return replace(decide(facts, now), next_at=now + timedelta(days=1))

    await world.add(plan())
    await _age(world, 1, wrong)
    equal(await world.store.ledger.refresh(), None)
    found = await world.schedule()
    equal((found.next_at, found.zone_data), (world.now + MINUTE, zone_data_version()))
    [(_, who, what), *_] = await world.store.schedules.changes("report")
    holds(who == "zone data" and zone_data_version() in what, "the change is written down")


@check
async def refreshing_changes_only_what_is_stale(world: World) -> None:
    await world.add(plan("a"), plan("b", "spaced 10m"), plan("c"), plan("d"))
    await _age(world, 4)
    await world.store.schedules.pause("c", until=START + timedelta(days=1))
    before = await world.store.schedules.page()
    equal([schedule.zone_data == OLDER for schedule in before], [True, True, False, True])
    page: int | None = 0
    while page is not None:
        page = await world.store.ledger.refresh(after=page, limit=1)
    for old, new in zip(before, await world.store.schedules.page(), strict=True):
        equal(replace(new, revision=0, zone_data=""), replace(old, revision=0, zone_data=""))
        equal(new.zone_data, zone_data_version())
    changed = await world.store.schedules.page()
    await world.store.ledger.refresh()
    equal(await world.store.schedules.page(), changed)


@check
async def a_node_with_older_data_leaves_schedules_to_the_newer_for_a_minute(
    world: World,
) -> None:
    await world.add(plan())
    world.wait(MINUTE)
    await _fire_with(world, NEWER)
    world.wait(MINUTE + 59 * SECOND)
    equal((await world.fire()).schedules, 0)
    world.wait(SECOND)
    equal((await world.fire()).schedules, 1, "then nobody else will come")
    found = await world.schedule()
    equal((found.zone_data, len(await world.fires())), (zone_data_version(), 3))


@check
async def a_node_with_older_data_does_not_hold_up_the_others(world: World) -> None:
    await world.add(plan("theirs"))
    world.wait(MINUTE)
    await _fire_with(world, NEWER)
    await world.add(plan("mine", "every 30s"))
    world.wait(MINUTE + SECOND)
    equal((await world.fire(limit=1)).schedules, 1)
    equal((len(await world.fires("theirs")), len(await world.fires("mine"))), (1, 2))
