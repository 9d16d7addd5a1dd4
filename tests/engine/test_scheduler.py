"""The scheduler corrects what a node with older zone data has written, whenever that was."""

from dataclasses import replace
from datetime import datetime, timedelta

from duly.engine.scheduler import REFRESH_SECONDS, Scheduler
from duly.policy.firing import Facts, Firing, decide
from duly.rules import zone_data_version
from duly.store import ledger
from duly.testing.clock import VirtualClock
from tests.conformance.world import MINUTE, START, World
from tests.engine.workshop import memory_store
from tests.factories import plan

OLDER = "1999a"


def as_the_older_thinks(facts: Facts, now: datetime) -> Firing:
    return replace(decide(facts, now), next_at=now + timedelta(days=1))


async def test_what_an_older_node_writes_later_is_corrected() -> None:
    clock, seconds = VirtualClock(START), [0.0]
    async with memory_store(clock) as store:
        world = World(store, clock)
        scheduler = Scheduler(store, steady=lambda: seconds[0])
        await world.add(plan())
        await scheduler.tick()
        for _ in range(2):  # not only once
            world.wait(3 * MINUTE)
            await world.write(
                lambda ids: ledger.fire(
                    as_the_older_thinks, limit=10, zone_data=OLDER, ids=ids, trust=lambda _: True
                )
            )
            assert (await world.schedule()).zone_data == OLDER
            await scheduler.tick()
            seconds[0] += REFRESH_SECONDS
            await scheduler.tick()
            found = await world.schedule()
            assert (found.zone_data, found.next_at) == (zone_data_version(), world.now + MINUTE)
            [(_, who, what), *_] = await store.schedules.changes("report")
            assert who == "zone data"
            assert zone_data_version() in what
