"""Answers about runs that did not go straight: rescued, retried, run by hand, merged, late."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duly.model.outcome import Raised
from duly.views.charts import DayStrip
from duly.views.fires import Counts, history
from duly.views.today import LateRuns, status
from duly.views.why import why_job, why_schedule
from duly.web.svg.charts import strip as drawn
from tests.app.test_why import opened
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, plan

REFUSED = Raised(error="ConnectionError", message="refused")
SECOND = timedelta(seconds=1)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(":memory:") as there:
        yield there


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[World]:
    async with opened(postgres_url) as there:
        yield there


async def test_a_rescued_job_is_as_late_as_the_run_that_counted(world: World) -> None:
    await world.add(plan("report", "every 1h", retry='{"attempts": 3}'))
    await world.fire_after(HOUR)
    first = await world.begin()
    world.wait(23 * SECOND)
    await world.lose(first)
    job = await world.begin()
    world.wait(14 * SECOND)
    await world.end(job)
    said = (await why_schedule(world.store, "report")).splitlines()
    assert said[0].startswith(
        "report was due 13:00 UTC and ran 23 s late (started 13:00:23, took 14 s), "
        "at attempt 2 (1 was lost with its worker: try 1 of 3)."
    )


async def test_attempts_after_a_retry_go_on_counting(world: World) -> None:
    await _see_the_attempts(world)


async def test_attempts_after_a_retry_go_on_counting_on_postgresql(postgres: World) -> None:
    await _see_the_attempts(postgres)


async def _see_the_attempts(world: World) -> None:
    number = await world.enqueue(call(retry='{"attempts": 2}'))
    for _ in range(2):
        for _ in range(2):
            world.wait(HOUR)
            await world.dispatch()
            await world.end(await world.begin(), REFUSED)
        await world.store.jobs.retry(number)
    told = await world.store.jobs.attempts(number)
    assert [one.number for one in told] == [1, 2, 3, 4]
    assert [one.reason.partition(" raised")[0] for one in told] == [
        "attempt 1 of 2",
        "attempt 2 of 2",
        "attempt 1 of 2 since it was retried",
        "attempt 2 of 2 since it was retried",
    ]
    await world.end(await world.begin())
    assert "at attempt 5 (1 of 2 since it was retried)" in await why_job(world.store, number)


async def test_a_run_by_hand_is_recorded_as_one(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.by("ada").schedules.run("report")
    [fire] = await history(world.store, "report", since=None, until=None, limit=10)
    assert (fire.reason, fire.manual) == ("run by hand by ada", True)
    await world.add(plan("waits", "every 1h", overlap="queue_one"))
    await world.store.schedules.run("waits")
    await world.store.schedules.run("waits")
    last, _ = await history(world.store, "waits", since=None, until=None, limit=10)
    assert last.reason.startswith("run by hand; ")


async def test_merged_runs_are_not_counted_as_what_became_of_another(world: World) -> None:
    await world.add(plan("often", "every 1m"))
    await world.fire_after(118 * MINUTE)  # one run makes up for all of them
    await world.end(await world.begin(), REFUSED)
    found = await status(world.store)
    assert found.counts == Counts(failed=1, merged=117)
    [need] = found.needs
    assert (need.kind, need.moments) == ("failed", found.counts.failed)


async def test_as_many_late_runs_are_listed_as_are_counted(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    world.wait(2 * MINUTE)
    for _ in range(6):
        await world.fire_after(58 * MINUTE)
        world.wait(2 * MINUTE)
        await world.end(await world.begin())
    view = await DayStrip().look(world.store, world.now)
    assert (view.counts.late, len(await LateRuns().look(world.store, view))) == (6, 6)


async def test_one_failure_of_fifteen_is_a_fifteenth_of_the_bar(world: World) -> None:
    await world.add(plan("report", "every 1m"))
    for number in range(15):
        await world.fire_after(MINUTE)
        await world.end(await world.begin(), *([REFUSED] if number == 7 else []))
    view = await DayStrip().look(world.store, world.now)
    shown = str(drawn(view, "UTC", lambda _: ""))
    found = re.findall(r'<rect class="(succeeded|failed)" [^>]*height="([\d.]+)"', shown)
    heights = {kind: float(height) for kind, height in found}
    assert heights["succeeded"] > 10 * heights["failed"] > 0
