"""The strip of hours: what became of a day's moments, asked for once and never out of date."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from duly.model.outcome import Raised
from duly.model.policies import Missed
from duly.views import charts
from duly.views import overdue as coming
from duly.views.charts import QUARTER, DayStrip, StripView
from duly.views.fires import Counts
from duly.views.today import status
from tests.app.test_why import MONDAY, opened
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import plan

REFUSED = Raised(error="ConnectionError", message="refused")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(":memory:") as there:
        yield there


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[World]:
    async with opened(postgres_url) as there:
        yield there


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a look has time for everything."""
    monkeypatch.setattr(charts, "STRIP_BUDGET", 1_000)


async def look(world: World, seen: DayStrip | None = None) -> StripView:
    return await (seen or DayStrip()).look(world.store, world.now)


def asked_for(world: World) -> list[datetime]:
    """The quarters that are asked for from now on."""
    asked: list[datetime] = []
    activity = world.store.activity
    tallies = activity.hour_tallies

    async def noted(since: datetime, **more: object) -> object:
        asked.append(since)
        return await tallies(since, **more)  # type: ignore[arg-type]

    activity.hour_tallies = noted  # type: ignore[method-assign, assignment]
    return asked


async def test_each_hour_tells_what_became_of_its_moments(world: World) -> None:
    await _see_the_hours(world)


async def test_each_hour_tells_what_became_of_its_moments_on_postgresql(postgres: World) -> None:
    await _see_the_hours(postgres)


async def _see_the_hours(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.fire_after(HOUR)
    await world.end(await world.begin())
    await world.fire_after(HOUR)
    await world.end(await world.begin(), REFUSED)
    await world.fire_after(HOUR)
    world.wait(2 * MINUTE)
    await world.end(await world.begin())
    await world.fire_after(58 * MINUTE)
    seen = await look(world)
    assert (len(seen.hours), seen.since, seen.hours[-1].start) == (
        24,
        MONDAY - 19 * HOUR,
        world.now,
    )
    assert [cell.worst for cell in seen.hours[-5:]] == [
        "none",
        "succeeded",
        "failed",
        "late",
        "in progress",
    ]
    assert seen.counts == Counts(succeeded=2, late=1, in_progress=1, failed=1)


async def test_moments_decided_late_are_in_the_hours_in_which_they_were_due(world: World) -> None:
    await world.add(plan("report", "every 1h", missed=Missed("all"), overlap="allow"))
    await world.fire_after(3 * HOUR + MINUTE)
    seen = await look(world)
    assert [cell.counts.due for cell in seen.hours[-4:]] == [0, 1, 1, 1]


async def test_what_is_retried_is_kept_in_the_next_look(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.fire_after(HOUR)
    job = await world.begin()
    await world.end(job, REFUSED)
    await world.store.schedules.pause("report")
    world.wait(5 * HOUR)
    remembers = DayStrip()
    assert (await look(world, remembers)).counts == Counts(failed=1)
    await world.store.jobs.retry(job.id)
    assert (await look(world, remembers)).counts == Counts(in_progress=1)
    await world.end(await world.begin())
    assert (await look(world, remembers)).counts == Counts(succeeded=1, late=1)


async def test_what_is_over_is_asked_for_once_and_then_in_turn(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    world.wait(20 * MINUTE)
    remembers, asked = DayStrip(), asked_for(world)
    await look(world, remembers)
    assert len(asked) == len(set(asked)) == 23 * 4 + 2
    old = set(asked) - {MONDAY + QUARTER}
    for _ in range(len(old)):
        asked.clear()
        await look(world, remembers)
        current, turn = asked
        assert current == MONDAY + QUARTER
        old.remove(turn)
    assert old == set()


async def test_what_was_decided_in_a_quarter_is_asked_for_until_it_can_be_seen(
    world: World,
) -> None:
    world.wait(QUARTER - timedelta(seconds=1))
    remembers, asked = DayStrip(), asked_for(world)
    await look(world, remembers)
    world.wait(timedelta(seconds=2))
    asked.clear()
    await look(world, remembers)
    assert {MONDAY, MONDAY + QUARTER} <= set(asked)
    asked.clear()
    await look(world, remembers)
    assert MONDAY in asked, "a transaction may not have ended"
    world.wait(timedelta(seconds=40))
    await look(world, remembers)
    asked.clear()
    await look(world, remembers)
    assert MONDAY not in asked


async def test_a_look_takes_no_longer_however_much_has_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add(plan("report", "every 15m"))
    for _ in range(8):
        await world.fire_after(QUARTER)
        await world.end(await world.begin(), REFUSED)
    world.wait(MINUTE)
    remembers, asked = DayStrip(), asked_for(world)
    await look(world, remembers)
    asked.clear()
    await look(world, remembers)
    assert len(asked) == 9, "there is time for all that failed"
    monkeypatch.setattr(charts, "STRIP_BUDGET", 0)
    seen = set()
    for _ in range(7):
        asked.clear()
        await look(world, remembers)
        _current, failed, _turn = asked
        seen.add(failed)
    assert len(seen) == 7, "one after the other"


async def test_a_day_that_goes_on_forgets_the_hours_before(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    remembers = DayStrip()
    await world.fire_after(HOUR)
    await world.end(await world.begin())
    assert (await look(world, remembers)).counts == Counts(succeeded=1)
    world.wait(23 * HOUR)
    assert (await look(world, remembers)).hours[0].counts == Counts(succeeded=1)
    world.wait(HOUR)
    asked = asked_for(world)
    seen = await look(world, remembers)
    assert (seen.counts, min(asked)) == (Counts(overdue=24), seen.since)


async def test_the_hours_to_come_tell_how_many_moments_they_have(world: World) -> None:
    await world.add(
        plan("often", "every 5m"),
        plan("once", "0 15 * * *", zone="UTC"),
        plan("paused", "every 1m"),
        plan("after the end", "spaced 1m"),
    )
    await world.store.schedules.pause("paused")
    world.wait(32 * MINUTE)
    seen = await look(world)
    assert seen.rest_of_hour == 5
    assert [hour.start - MONDAY for hour in seen.coming] == [n * HOUR for n in range(1, 13)]
    assert [hour.moments for hour in seen.coming] == [12, 12, 13, *[12] * 9]
    assert not seen.estimated


async def test_what_is_being_fired_just_now_is_still_coming(world: World) -> None:
    await world.add(plan("often", "every 1m"))
    world.wait(MINUTE + timedelta(milliseconds=1))
    assert (await look(world)).coming[0].moments == 60


async def test_moments_too_many_to_be_counted_are_estimated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coming, "MOST_STEPS", 500)
    await world.add(plan("dense", "every 1s"), plan("sparse", "every 30m"))
    seen = await look(world)
    assert seen.estimated
    assert [hour.moments for hour in seen.coming] == [3_602] * 12


async def test_what_is_coming_is_worked_out_once_a_minute(world: World) -> None:
    remembers = DayStrip()
    await look(world, remembers)
    await world.add(plan("often", "every 1m"))
    assert (await look(world, remembers)).coming[0].moments == 0
    world.wait(MINUTE)
    assert (await look(world, remembers)).coming[0].moments == 60


async def test_a_status_goes_by_the_strip_that_it_is_given(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    remembers = DayStrip()
    for _ in range(3):
        await world.fire_after(HOUR)
        await world.end(await world.begin())
    world.wait(MINUTE)
    alone, given = await status(world.store), await status(world.store, remembers)
    assert alone.counts == given.counts == Counts(succeeded=3)
    assert given.headline() == "All 3 runs since yesterday 16:00 were OK."
    await world.store.schedules.pause("report")
    world.wait(8 * HOUR)
    assert (await status(world.store, remembers)).headline() == ("All 3 runs since 00:00 were OK.")
