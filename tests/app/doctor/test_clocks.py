"""Whether everybody agrees about the time, and whether what is due is dealt with."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from duly import clock as wall
from duly.doctor.checks import (
    Reading,
    clock,
    judge_skew,
    judge_zone_data,
    moments,
    schedules,
    zone_data,
)
from duly.policy.firing import decide
from duly.rules import zone_data_version
from duly.store import ledger
from tests.app.doctor.patients import checked, found
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, plan

NOON = datetime(2026, 11, 9, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NEWER, OLDER = "2999z", "1999a"


def reading(round_trip: timedelta, ahead: timedelta) -> Reading:
    """The store's answer is given in the middle of the round trip."""
    return Reading(NOON, round_trip, NOON + round_trip / 2 + ahead)


@pytest.fixture
def our_clock_is_slow() -> Iterator[None]:
    """By a minute and a half, and it goes on."""
    before = wall.choose(lambda: datetime.now(UTC) - timedelta(seconds=90))  # noqa: TID251
    yield
    wall.choose(before)


@pytest.mark.parametrize(
    ("ahead", "level"),
    [(timedelta(), "ok"), (SECOND / 2, "ok"), (2 * SECOND, "warning"), (MINUTE, "problem")],
)
def test_skew_is_counted_in_both_directions(ahead: timedelta, level: str) -> None:
    assert judge_skew([reading(SECOND / 100, ahead)]).level == level
    assert judge_skew([reading(SECOND / 100, -ahead)]).level == level


def test_skew_is_read_from_the_quickest_answer() -> None:
    slow, quick = reading(10 * SECOND, MINUTE), reading(SECOND / 100, timedelta())
    assert judge_skew([slow, quick, slow]).level == "ok"


def test_what_half_a_round_trip_explains_is_no_skew() -> None:
    assert judge_skew([reading(8 * SECOND, 4 * SECOND)]).level == "ok"
    assert judge_skew([reading(8 * SECOND, 6 * SECOND)]).said.startswith(
        "this machine's clock is 2 s behind the database's"
    )


async def test_this_machine_agrees_with_its_database(postgres_url: str) -> None:
    finding = await found(postgres_url, "clock")
    assert finding.level == "ok"
    assert "agree within" in finding.said


async def test_a_machine_whose_clock_is_slow_is_told(
    postgres_url: str, our_clock_is_slow: None
) -> None:
    finding = await found(postgres_url, "clock")
    assert finding.level == "problem"
    assert finding.said.startswith("this machine's clock is 1 min 30 s behind the database's")
    assert "set-ntp" in finding.fix


async def test_a_clock_that_was_set_back_is_known_by_what_was_written(world: World) -> None:
    await world.new_worker()
    assert (await checked(world, clock)).level == "ok"
    world.clock.advance(-HOUR)
    finding = await checked(world, clock)
    assert finding.level == "problem"
    assert finding.said.startswith("a row was written 1 h in the future")


async def test_nodes_with_one_release_of_the_zone_data_agree(world: World) -> None:
    await world.add(plan())
    assert (await checked(world, zone_data)).level == "ok"


async def test_a_node_with_newer_zone_data_leaves_a_trace(world: World) -> None:
    await world.add(plan(), plan("other", "every 1000h"))
    world.wait(MINUTE)
    await world.write(
        lambda ids: ledger.fire(decide, limit=10, zone_data=NEWER, ids=ids, trust=lambda _: True)
    )
    finding = await checked(world, zone_data)
    here = zone_data_version()
    assert (finding.level, finding.said) == (
        "warning",
        f"release {here} on this machine, but other nodes have other releases: {NEWER} (1 "
        "schedule)",
    )
    assert "including this one" in finding.fix


def test_a_node_with_older_zone_data_is_named_by_its_release() -> None:
    finding = judge_zone_data({OLDER: 2, "2026a": 5}, "2026a")
    assert finding.level == "warning"
    assert finding.said.endswith(f"{OLDER} (2 schedules)")
    assert "including this one" not in finding.fix


async def test_a_moment_that_nobody_fires_is_a_problem(world: World) -> None:
    await world.add(plan())
    world.wait(MINUTE + 4 * SECOND)
    assert (await checked(world, moments)).level == "ok"
    world.wait(MINUTE + 16 * SECOND)
    finding = await checked(world, moments)
    assert finding.level == "problem"
    assert finding.said.startswith("the oldest overdue run was due ")
    assert finding.said.endswith(" UTC (1 min 20 s ago) and no scheduler has fired it")
    assert "duly scheduler" in finding.fix
    await world.fire()
    assert (await checked(world, moments)).level == "ok"


async def test_a_job_that_nobody_makes_ready_is_a_problem(world: World) -> None:
    await world.enqueue(call(run_after=MINUTE))
    world.wait(2 * MINUTE)
    finding = await checked(world, moments)
    assert (finding.level, "a job was due" in finding.said) == ("problem", True)
    await world.dispatch()
    assert (await checked(world, moments)).level == "ok"


async def test_a_schedule_that_cannot_be_decided_is_a_problem(world: World) -> None:
    await world.add(plan())
    assert (await checked(world, schedules)).level == "ok"

    def broken(*_: object) -> None:
        raise RuntimeError("no such calendar")

    world.wait(MINUTE)
    await world.fire(decide=broken)  # type: ignore[arg-type]
    finding = await checked(world, schedules)
    assert finding.level == "problem"
    assert finding.fix.endswith("duly schedules show report")
