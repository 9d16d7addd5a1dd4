"""What is said to come next is never what somebody has skipped in advance."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from duly.app.nouns import StoreNouns
from duly.errors import InvalidValue
from duly.views.today import status
from duly.views.why import why_schedule
from tests.app.test_why import MONDAY, opened
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import plan


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(":memory:") as there:
        yield there


async def announced(world: World, name: str) -> set[datetime | None]:
    """What each of those says that tell people about it."""
    listed = {one.name: one.next_at for one in await StoreNouns(world.store).schedules.alist()}
    coming = {one.name: one.due_at for one in (await status(world.store)).coming}
    people = StoreNouns(world.store).schedules
    [first] = await people.apreview(name, count=1)
    return {listed[name], coming[name], (await people.aget(name)).next_at, first}


async def test_everybody_announces_the_moment_behind_those_that_are_skipped(world: World) -> None:
    await world.add(plan("report", "every 1h"), plan("other", "every 90m"))
    assert await announced(world, "report") == {MONDAY + HOUR}
    await world.store.schedules.skip_next("report", count=2)
    assert await announced(world, "report") == {MONDAY + 3 * HOUR}
    assert [one.name for one in (await status(world.store)).coming] == ["other", "report"]


async def test_why_announces_it_before_the_first_moment_and_after_one(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.store.schedules.skip_next("report")
    assert "for the first time Mon 2026-11-09 14:00 UTC, in 2 h" in await why_schedule(
        world.store, "report"
    )
    world.wait(2 * HOUR)
    await world.fire()
    await world.end(await world.begin())
    await world.store.schedules.skip_next("report")
    assert "Next: 16:00." in await why_schedule(world.store, "report")


async def test_a_fixed_delay_that_is_skipped_comes_a_delay_later(world: World) -> None:
    await world.add(plan("report", "spaced 10m", first="wait"))
    await world.store.schedules.skip_next("report")
    assert await announced(world, "report") == {MONDAY + 20 * MINUTE}


async def test_a_paused_schedule_still_says_when_its_pause_ends(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.store.schedules.skip_next("report")
    await world.store.schedules.pause("report", until=MONDAY + HOUR)
    [found] = await StoreNouns(world.store).schedules.alist()
    assert (found.paused_until, found.next_at) == (MONDAY + HOUR, MONDAY + HOUR)


async def test_what_was_done_is_noted_on_the_clock_of_the_schedule(world: World) -> None:
    await world.add(plan("nightly", "02:00 Europe/Berlin"))
    people = world.store.schedules
    await world.by("ada").schedules.skip_next("nightly")
    await people.skip_next("nightly", count=2)
    until = MONDAY + timedelta(days=7, microseconds=501_119)
    await people.pause("nightly", until=until)
    assert [what for _, _, what in await people.changes("nightly")] == [
        "paused until Mon 2026-11-16 13:00 Europe/Berlin",
        "skipped 2 runs, Wed 2026-11-11 02:00 Europe/Berlin to Thu 2026-11-12 02:00 Europe/Berlin",
        "skipped Tue 2026-11-10 02:00 Europe/Berlin",
    ]


async def test_a_pause_that_would_be_over_says_so_on_the_clock_of_the_schedule(
    world: World,
) -> None:
    await world.add(plan("nightly", "02:00 Europe/Berlin"))
    world.wait(timedelta(microseconds=563_481))
    with pytest.raises(InvalidValue) as refused:
        await world.store.schedules.pause("nightly", until=MONDAY - HOUR)
    assert str(refused.value) == (
        "until=Mon 2026-11-09 12:00 Europe/Berlin is in the past; it is Mon 2026-11-09 13:00 "
        "Europe/Berlin now"
    )
