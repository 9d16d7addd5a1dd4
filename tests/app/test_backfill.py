"""Backfills from Python, and what ``why`` says of a moment that was asked for later."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from duly import Duly
from duly.clock import now
from duly.errors import InvalidValue, NotFound, WrongState
from duly.model.access import Actor
from duly.model.fire import Backfill
from duly.model.policies import Missed
from duly.store.maintenance import Retention
from duly.views.why import why_schedule
from tests.app.test_why import DAY, MONDAY, keep, night, nightly, postgres, why, world
from tests.conformance.world import HOUR, MINUTE, World

__all__ = ["postgres", "world"]


@pytest.fixture
def app(tmp_path: Path) -> Duly:
    duly = Duly(str(tmp_path / "duly.db"))

    @duly.schedule("every 1h")
    @duly.task
    def report() -> str:
        return f"{duly.current().due_at:%H}"

    duly.schedules.add("every 1h", report)
    return duly


def test_moments_that_have_passed_are_run_each_with_its_own_due_at(app: Duly) -> None:
    end = now().replace(minute=0, second=0, microsecond=0)
    start = end - 2 * HOUR
    foreseen = app.schedules.backfill("report", start, end, dry_run=True)
    assert (foreseen.queued, foreseen.jobs) == ((start, start + HOUR), ())
    assert app.schedules.history("report") == []
    done = app.schedules.backfill("report", start, end)
    assert (done.queued, len(done.jobs), done.dry_run) == (foreseen.queued, 2, False)
    fires = app.schedules.history("report")
    assert [(fire.due_at, fire.manual, fire.reason) for fire in fires[::-1]] == [
        (moment, True, "backfilled by somebody") for moment in done.queued
    ]
    with app.running(scheduler=False):
        results = [app.jobs.get(number).result(timeout="30s") for number in done.jobs]
    assert results == [f"{moment:%H}" for moment in done.queued]


async def test_it_can_be_awaited_and_repeated(app: Duly) -> None:
    end = now()
    for queued in (3, 0):
        done = await app.schedules.abackfill("report", end - 3 * HOUR, end)
        assert (len(done.queued), len(done.left_alone)) == (queued, 3 - queued)
    again = await app.schedules.abackfill("report", end - 3 * HOUR, end, again=True)
    assert (type(again), len(again.queued)) == (Backfill, 3)
    await app.aclose()


def test_what_cannot_be_backfilled_is_refused(app: Duly) -> None:
    end = now()
    with pytest.raises(InvalidValue, match=r"start=.* is naive"):
        app.schedules.backfill("report", end.replace(tzinfo=None), end)
    with pytest.raises(InvalidValue, match="'7d': expected a datetime with a zone"):
        app.schedules.backfill("report", "7d", end)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="only past times can be backfilled"):
        app.schedules.backfill("report", end, end + HOUR)
    with pytest.raises(NotFound, match='did you mean "report"'):
        app.schedules.backfill("reprot", end - HOUR, end)
    app.schedules.edit("report", rule="spaced 10m")
    with pytest.raises(WrongState, match=r'"report" has a fixed delay, "spaced 10m"'):
        app.schedules.backfill("report", end - HOUR, end)


async def test_a_moment_that_was_skipped_and_asked_for_later_tells_both(world: World) -> None:
    await skipped_and_asked_for(world)


async def test_it_does_so_on_postgresql_too(postgres: World) -> None:
    await skipped_and_asked_for(postgres)


async def skipped_and_asked_for(there: World) -> None:
    await nightly(there)
    await there.store.acting(Actor("ada", "program")).schedules.pause("nightly")
    there.clock.set(MONDAY + DAY)
    await there.store.acting(Actor("ada", "program")).schedules.resume("nightly")
    since = MONDAY - timedelta(hours=1)
    await there.store.acting(Actor("grace", "program")).schedules.backfill(
        "nightly", since=since, until=there.now
    )
    answer = await why(there, at="Tue 02:00")
    assert answer[0].startswith(
        "nightly was due Tue 2026-11-10 02:00 Europe/Berlin and was skipped: the schedule was"
    )
    [line] = [line for line in answer if "backfilled" in line]
    assert re.fullmatch(r"  backfilled by grace 13:00: job \d+ waits for a worker: .*", line)
    await keep(there)
    [line] = [line for line in await why(there, at="Tue 02:00") if "backfilled" in line]
    assert line.endswith("ran 11 h late (started 13:00, took 40 min)")


async def test_a_moment_of_a_stretch_that_was_asked_for_later_tells_both(world: World) -> None:
    await nightly(world, missed=Missed("latest"), overlap="allow")
    await night(world, days=4)
    since, until = MONDAY, MONDAY + 2 * DAY
    await world.by("grace").schedules.backfill("nightly", since=since, until=until)
    answer = await why(world, at="Wed 02:00")
    assert "was merged into the run of Fri 02:00" in answer[0]
    assert sum("backfilled by grace" in line for line in answer) == 1


async def test_a_moment_before_the_schedule_was_there_is_told_as_a_backfill(world: World) -> None:
    await nightly(world)
    await world.by("grace").schedules.backfill("nightly", since=MONDAY - DAY, until=MONDAY)
    world.wait(MINUTE)
    [sentence, *_] = await why(world, at="Mon 02:00")
    assert sentence.startswith(
        "nightly, due Mon 2026-11-09 02:00 Europe/Berlin, was backfilled by grace 13:00 and waits"
    )


async def test_a_run_in_the_way_is_named_and_not_one_that_waits_with_it(world: World) -> None:
    await nightly(world, overlap="queue_one")
    first = await world.store.schedules.run("nightly")
    begin = MONDAY - 3 * DAY
    done = await world.store.schedules.backfill("nightly", since=begin, until=MONDAY)
    said = await why_schedule(world.store, "nightly", datetime(2026, 11, 7, 1, tzinfo=UTC))
    assert f"waits for the run of Mon 13:00 (job {first.job_id})" in said
    assert str(done.jobs[0]) not in said.splitlines()[0]


async def test_years_of_moments_leave_one_table_behind_on_postgresql(
    postgres: World, postgres_url: str
) -> None:
    await nightly(postgres, overlap="allow")
    before = days_of_the_ledger(postgres_url)
    for _ in range(2):
        await postgres.store.schedules.backfill(
            "nightly", since=MONDAY - 1_000 * DAY, until=MONDAY - 10 * DAY
        )
    [past] = days_of_the_ledger(postgres_url) - before
    postgres.wait(60 * DAY)
    await postgres.store.schedules.backfill("nightly", since=MONDAY, until=postgres.now)
    gaps = days_of_the_ledger(postgres_url) - before - {past}
    assert len(gaps) <= 3, "before the days that were there, behind them, and today"
    fires = [fire for fire in await postgres.fires("nightly") if fire.is_backfill]
    assert len(fires) == 990 + 59, "the latest was the clock's"
    postgres.wait(91 * DAY)
    while await postgres.store.maintenance.prune(Retention(), limit=100):
        pass
    assert not {past, *gaps} & days_of_the_ledger(postgres_url)


def days_of_the_ledger(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "select relid::text from pg_partition_tree('duly.fire') where isleaf"
        )
        return {day for (day,) in found}
