"""Charts of what ended: in stretches that are asked for once, and percentiles from histograms."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from duly.errors import InvalidValue
from duly.model.outcome import Raised
from duly.store.activity import LENGTHS
from duly.views import charts
from duly.views.charts import Charts, Series, percentile
from tests.app.test_why import MONDAY, opened
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, plan

SECOND = timedelta(seconds=1)
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
    monkeypatch.setattr(charts, "BUDGET", 1_000)


async def look(
    world: World, seen: Charts | None = None, *, span: timedelta = HOUR, queue: str | None = None
) -> Series:
    return await (seen or Charts()).look(world.store, world.now, span=span, queue=queue)


def asked_for(world: World) -> list[datetime]:
    """The stretches that are asked for from now on."""
    asked: list[datetime] = []
    activity = world.store.activity
    minutes = activity.minutes

    async def noted(since: datetime, until: datetime, *, step: timedelta) -> object:
        asked.append(since)
        return await minutes(since, until, step=step)

    activity.minutes = noted  # type: ignore[method-assign, assignment]
    return asked


async def test_an_hour_is_drawn_by_the_minute(world: World) -> None:
    await _see_an_hour(world)


async def test_an_hour_is_drawn_by_the_minute_on_postgresql(postgres: World) -> None:
    await _see_an_hour(postgres)


async def _see_an_hour(world: World) -> None:
    await world.enqueue(call(), call(), call(queue="mail"))
    world.wait(3 * SECOND)
    first, second = await world.claim(2)
    world.wait(30 * SECOND)
    await world.end(first)
    await world.end(second, REFUSED)
    world.wait(MINUTE)
    [mail] = await world.claim(queue="mail")
    await world.store.jobs.cancel(mail.id)
    await world.end(mail)
    seen = await look(world)
    assert (len(seen.starts), seen.starts[-1], seen.complete) == (60, MONDAY + MINUTE, True)
    assert (seen.succeeded[-2:], seen.failed[-2:], seen.others[-2:]) == ((1, 1), (1, 0), (0, 0))
    assert (seen.waiting.p50[-2], seen.running.p50[-2]) == (3.5, 35.0)
    assert (seen.waiting.p50[0], seen.lateness.p50[-2:]) == (None, (None, None))
    other = await look(world, queue="mail")
    assert (other.succeeded[-2:], other.failed[-2:]) == ((0, 1), (0, 0))
    assert other.waiting.p50[-2] is None


async def test_a_day_is_drawn_by_the_quarter_with_the_lateness_of_schedules(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.fire_after(HOUR)
    world.wait(7 * SECOND)
    await world.end(await world.begin())
    seen = await look(world, span=24 * HOUR)
    assert (len(seen.starts), seen.step, seen.starts[-1]) == (96, 15 * MINUTE, MONDAY + HOUR)
    assert seen.succeeded[-1] == 1
    assert seen.lateness.p95[-1] == pytest.approx(9.75)


async def test_what_is_over_is_asked_for_once(world: World) -> None:
    remembers, asked = Charts(), asked_for(world)
    await look(world, remembers)
    assert len(asked) == len(set(asked)) == 60
    asked.clear()
    await look(world, remembers)
    assert asked == [], "nothing can have changed"
    world.wait(2 * SECOND)
    await look(world, remembers)
    assert asked == [MONDAY, MONDAY - MINUTE], "which a transaction may still be writing"
    world.wait(MINUTE)
    asked.clear()
    await look(world, remembers)
    assert asked == [MONDAY + MINUTE, MONDAY, MONDAY - MINUTE]
    world.wait(MINUTE)
    asked.clear()
    await look(world, remembers)
    assert asked == [MONDAY + 2 * MINUTE, MONDAY + MINUTE, MONDAY]


async def test_what_ends_now_is_seen_in_the_next_second(world: World) -> None:
    remembers = Charts()
    await look(world, remembers)
    await world.enqueue(call())
    await world.end(await world.begin())
    world.wait(SECOND)
    assert (await look(world, remembers)).succeeded[-1] == 1


async def test_a_first_look_at_much_shows_the_newest_and_later_ones_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "BUDGET", 0)
    remembers = Charts()
    for known in range(1, 61):
        seen = await look(world, remembers)
        assert seen.succeeded == (*[None] * (60 - known), *[0] * known)
        assert seen.complete is (known == 60)


def test_percentiles_lie_between_the_bounds_in_proportion() -> None:
    def histogram(**counts: int) -> list[int]:
        found = [0] * (len(LENGTHS) + 1)
        for place, count in counts.items():
            found[int(place[1:])] = count
        return found

    assert percentile(histogram(), 0.5) is None
    assert percentile(histogram(_0=10), 0.5) == 0.000_5
    assert percentile(histogram(_1=10), 0.5) == 0.001_5
    assert percentile(histogram(_1=50, _4=50), 0.5) == 0.002
    assert percentile(histogram(_1=50, _4=50), 0.95) == 0.019
    assert percentile(histogram(_21=3), 0.95) == 5_000


@pytest.mark.parametrize("span", [timedelta(), -HOUR, 25 * HOUR])
async def test_a_span_that_cannot_be_drawn_is_refused(world: World, span: timedelta) -> None:
    with pytest.raises(InvalidValue, match="up to 24 hours"):
        await look(world, span=span)
