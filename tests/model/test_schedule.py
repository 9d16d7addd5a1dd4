"""A plan is read when it is made: its rule, its bounds, its exclusion, its names."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.errors import InvalidValue, RuleError
from duly.model.job import Owner
from duly.model.policies import Policies
from duly.model.schedule import Plan, StoredSchedule
from duly.rules import Rule, Spaced

START = datetime(2026, 6, 3, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)


def plan(rule: str = "every 1h", **rest: Any) -> Plan:
    zone, owner = rest.pop("zone", "UTC"), rest.pop("owner", Owner.API)
    policies = Policies(**rest)
    return Plan(name="n", task="t", rule=rule, zone=zone, owner=owner, policies=policies)


def moments(rule: Rule | Spaced, count: int) -> list[int]:
    """The hours of its first moments after the start."""
    return [moment.hour for moment in rule.between(START, START + 1000 * HOUR, count)]


def test_without_an_exclusion_what_is_due_is_what_is_kept() -> None:
    found = plan()
    assert found.timing is found.kept
    assert moments(found.kept, 3) == [9, 10, 11]


def test_what_an_exclusion_takes_away_is_due_and_not_kept() -> None:
    found = plan(exclude="0 10 * * *")
    assert moments(found.timing, 3) == [9, 10, 11]
    assert moments(found.kept, 3) == [9, 11, 12]


def test_what_a_rule_takes_away_itself_is_due_and_not_kept() -> None:
    found = plan("every 1h - 0 10 * * *")
    assert moments(found.timing, 3) == [9, 10, 11]
    assert moments(found.kept, 3) == [9, 11, 12]


def test_both_kinds_of_exclusion_add_up() -> None:
    found = plan("every 1h - 0 10 * * *", exclude="0 12 * * *")
    assert moments(found.timing, 4) == [9, 10, 11, 12]
    assert moments(found.kept, 4) == [9, 11, 13, 14]


def test_bounds_hold_for_what_is_due_and_for_what_is_kept() -> None:
    found = plan(start=START + 2 * HOUR, end=START + 4 * HOUR, exclude="0 11 * * *")
    assert moments(found.timing, 9) == [10, 11, 12]
    assert moments(found.kept, 9) == [10, 12]


def test_a_fixed_delay_takes_bounds_and_stretches_and_no_points() -> None:
    found = plan("spaced 10m", end=START + HOUR, exclude="0 8 * * * lasting=30m").kept
    assert isinstance(found, Spaced)
    assert found.after_end(START) == START + timedelta(minutes=30)
    assert found.after_end(START + HOUR) is None
    with pytest.raises(RuleError, match="has no times to exclude"):
        plan("spaced 10m", exclude="0 8 * * *")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rule": "every now and then"}, "every now and then"),
        ({"rule": "0 9 * * *", "zone": None}, "zone"),
        ({"rule": "0 9 * * *", "zone": "Europe/Atlantis"}, "Europe/Atlantis"),
        ({"exclude": "spaced 5m"}, "a fixed delay has no scheduled times to exclude"),
        ({"exclude": "whenever"}, "whenever"),
        ({"dst": "sometimes"}, "sometimes"),
        ({"start": START, "end": START - HOUR}, "is before the start"),
        ({"start": datetime(2026, 6, 3)}, "needs a zone"),  # noqa: DTZ001 - that is the point
    ],
)
def test_what_cannot_be_read_is_refused_when_the_plan_is_made(
    wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises((RuleError, InvalidValue), match=said):
        plan(**wrong)


def test_a_schedule_needs_a_name() -> None:
    with pytest.raises(InvalidValue, match="needs a name"):
        Plan(name="", task="t", rule="every 1h")


def test_a_plan_is_a_value() -> None:
    assert plan() == plan()
    assert hash(plan()) == hash(plan())
    assert replace(plan(), rule="every 2h") != plan()


def test_an_edited_plan_has_the_timing_of_its_new_rule() -> None:
    found = plan()
    assert moments(found.kept, 2) == [9, 10]
    assert moments(replace(found, rule="every 2h").kept, 2) == [10, 12]


def test_two_plans_that_differ_in_name_spread_differently() -> None:
    spread = [
        Plan(name=name, task="t", rule="H H * * *", zone="UTC").kept for name in ("a", "b", "a")
    ]
    assert spread[0] == spread[2] != spread[1]


@pytest.mark.parametrize(
    ("rule", "zone", "shown"),
    [
        ("0 9 * * * Europe/Berlin", "UTC", "Europe/Berlin"),
        ("0 9 * * *", "Asia/Tokyo", "Asia/Tokyo"),
        ("every 1h", "Asia/Tokyo", "Asia/Tokyo"),
        ("every 1h", None, "UTC"),
        ("spaced 1h", None, "UTC"),
    ],
)
def test_moments_are_shown_in_the_zone_of_the_rule_or_of_the_plan(
    rule: str, zone: str | None, shown: str
) -> None:
    assert plan(rule, zone=zone).shown_zone == shown


def test_a_schedule_is_known_by_the_name_of_its_plan() -> None:
    found = StoredSchedule(id=1, plan=plan(), created_at=START, cursor=START, next_at=None)
    assert found.key == "n"
