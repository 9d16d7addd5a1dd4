"""The scheduler gives way to a faster one, and corrects what older zone data has led to."""

from dataclasses import replace
from datetime import datetime, timedelta

from duly.engine.scheduler import REFRESH_SECONDS, STEP_BACK, Scheduler
from duly.policy.decision import Facts, Firing
from duly.policy.firing import decide
from duly.rules import zone_data_version
from duly.store import ledger
from duly.testing.clock import VirtualClock
from tests.conformance.world import MINUTE, START, World
from tests.engine.workshop import memory_store
from tests.factories import plan

OLDER = "1999a"
SECOND = timedelta(seconds=1)


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


async def test_a_scheduler_stands_back_until_a_schedule_has_waited_for_it() -> None:
    clock, seconds = VirtualClock(START), [0.0]

    def steady() -> float:
        return seconds[0]

    def wait(length: timedelta) -> None:
        clock.advance(length)
        seconds[0] += length.total_seconds()

    async with memory_store(clock) as store:
        await store.schedules.add([plan(rule="every 1s")])
        slow, fast = Scheduler(store, steady=steady), Scheduler(store, steady=steady)
        while (rest := await slow.tick()) == timedelta(0):
            pass  # it reads what older zone data may have led to
        wait(rest)
        await fast.tick()
        rest = await slow.tick()
        assert rest == SECOND + STEP_BACK  # it came second
        wait(rest - STEP_BACK / 2)
        assert await slow.tick() == SECOND - STEP_BACK / 2 + STEP_BACK  # it was early for once
        wait(SECOND + STEP_BACK / 2)
        assert await slow.tick() == SECOND - STEP_BACK  # nobody else came
