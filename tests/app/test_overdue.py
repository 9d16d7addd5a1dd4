"""An outage: what is overdue comes first in every answer, on real stores."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duly.views.charts import DayStrip
from duly.views.overdue import find_overdue
from duly.views.today import status
from duly.views.why import why_schedule
from tests.app.test_why import MONDAY, opened
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import plan

SECOND = timedelta(seconds=1)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(":memory:") as there:
        yield there


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[World]:
    async with opened(postgres_url) as there:
        yield there


async def outage(world: World, length: timedelta) -> None:
    """Fire the first run of a busy schedule, let it succeed, and then stop every scheduler."""
    await world.add(plan("often", "every 2s"), plan("hourly", "every 1h"))
    await world.fire_after(2 * SECOND)
    await world.end(await world.begin())
    world.wait(length)


async def test_why_tells_of_the_oldest_overdue_run_and_not_of_the_last_good_one(
    world: World,
) -> None:
    await outage(world, MINUTE)
    said = (await why_schedule(world.store, "often")).splitlines()
    assert said[0] == (
        "often was due Mon 2026-11-09 12:00:04 UTC and has not been fired: no scheduler is running."
        " Nothing was fired since 12:00:02 (1 min ago)."
    )
    assert said[1:3] == [
        "  29 more runs are overdue, the last was due 12:01:02",
        "  the previous run: often was due 12:00:02 UTC and ran on time (0 ms late, took 0 ms).",
    ]
    assert (await why_schedule(world.store, "hourly")).startswith("hourly has not been due yet.")


async def test_what_was_due_a_second_ago_is_not_overdue(world: World) -> None:
    await outage(world, 3 * SECOND)
    said = await why_schedule(world.store, "often")
    assert said.startswith("often was due 12:00:02 UTC and ran on time")
    assert (await status(world.store)).ok


async def test_a_paused_schedule_says_so_however_often_it_would_be_due(world: World) -> None:
    await outage(world, SECOND)
    await world.by("ada").schedules.pause("often")
    world.wait(MINUTE)
    assert "it is paused by ada" in (await why_schedule(world.store, "often")).splitlines()[0]


async def test_status_counts_and_lists_what_is_overdue(world: World) -> None:
    await _see_what_is_overdue(world)


async def test_status_counts_and_lists_what_is_overdue_on_postgresql(postgres: World) -> None:
    await _see_what_is_overdue(postgres)


async def _see_what_is_overdue(world: World) -> None:
    await outage(world, MINUTE)
    found = await status(world.store)
    assert found.headline() == (
        "No scheduler is running: nothing was fired since 12:00:02 (1 min ago). "
        "30 runs of 1 schedule are overdue."
    )
    assert not found.ok
    assert (found.counts.due, found.counts.succeeded, found.counts.overdue) == (31, 1, 30)
    assert [(one.name, one.due_at, one.overdue) for one in found.coming] == [
        ("often", MONDAY + 4 * SECOND, True),
        ("hourly", MONDAY + HOUR, False),
    ]
    assert [(need.kind, need.sentence) for need in found.needs] == [
        ("overdue", "30 runs of 1 schedule are overdue and not fired yet")
    ]


async def test_the_strip_of_today_counts_overdue_runs_in_the_hours_they_were_due(
    world: World,
) -> None:
    await outage(world, 2 * HOUR)
    seen = await DayStrip().look(world.store, world.now)
    often, hourly = [1_798, 1_800, 1], [0, 1, 1]
    assert [cell.counts.overdue for cell in seen.hours[-3:]] == [
        a + b for a, b in zip(often, hourly, strict=True)
    ]
    assert seen.hours[-2].worst == "overdue"


async def test_a_day_of_seconds_is_counted(world: World) -> None:
    await world.add(plan("often", "every 1s"))
    world.wait(24 * HOUR)
    found = await find_overdue(world.store, world.now)
    assert found is not None
    assert abs(sum(found.hours.values()) - 86_400) < 100  # a walk of so many steps is estimated
    assert found.sentence("UTC") == (
        "No scheduler is running: nothing was ever fired. 86,400 runs of 1 schedule are overdue."
    )


async def test_a_run_that_waits_while_others_are_fired_is_not_a_scheduler_that_is_down(
    world: World,
) -> None:
    await world.add(plan("one", "every 70m"), plan("other", "every 70m"))
    world.wait(2 * HOUR)
    await world.fire(limit=1)
    world.wait(SECOND)
    found = await find_overdue(world.store, world.now)
    assert found is not None
    assert found.sentence("UTC") == (
        "A scheduler is running but behind: "
        "2 runs of 1 schedule are overdue since 12:30 (1 h 30 min ago)."
    )
    [name] = [one.name for one in (await status(world.store)).coming if one.overdue]
    assert (await why_schedule(world.store, name)).splitlines()[0] == (
        f"{name} was due Mon 2026-11-09 12:30 UTC and has not been fired yet, though a scheduler "
        "is running: it fired another schedule 1 s ago."
    )
