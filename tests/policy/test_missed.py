"""Which moments of a stretch are made up for, and how the others are counted."""

from datetime import datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.model.policies import Catchup, Missed
from duly.policy.due_moments import MomentRange, Picked, newest, pick, stretch
from duly.rules import Rule, at, bounded, cron, every
from tests.policy.deciding import HOUR, MINUTE
from tests.policy.deciding import at as moment

START = moment("2026-06-03 08:00")
HOURLY = every("1h")
NOON = moment("2026-06-03 12:00")


def between(first: int, last: int, count: int) -> MomentRange:
    return MomentRange(START.replace(hour=first), START.replace(hour=last), count)


def hours(*wanted: int) -> list[datetime]:
    return [START.replace(hour=hour) for hour in wanted]


def picked(missed: Missed, now: datetime = NOON) -> Picked:
    return pick(missed, HOURLY, after=START, now=now)


def test_the_latest_is_picked_and_the_older_ones_are_left() -> None:
    assert picked(Missed()) == Picked(hours(12), between(9, 11, 3))


def test_all_are_picked_oldest_first() -> None:
    assert picked(Missed("all")) == Picked(hours(9, 10, 11, 12), None)


def test_at_most_so_many_are_picked_and_they_are_the_newest() -> None:
    assert picked(Missed("all", at_most=3)) == Picked(hours(10, 11, 12), between(9, 9, 1))


@pytest.mark.parametrize(("late", "wanted"), [(59, 1), (60, 1), (61, 0)])
def test_what_is_older_than_its_grace_is_not_made_up_for(late: int, wanted: int) -> None:
    found = picked(Missed("skip"), NOON + timedelta(seconds=late))
    assert len(found.moments) == wanted
    assert found.left == between(9, 12 - wanted, 4 - wanted)


@pytest.mark.parametrize("policy", get_args(Catchup))
def test_where_nothing_is_due_nothing_is_picked(policy: Catchup) -> None:
    missed = Missed(policy)
    assert picked(missed, START + 59 * MINUTE) == Picked([], None)
    assert picked(missed, START - HOUR) == Picked([], None)


def test_the_moment_of_the_cursor_is_out_and_the_moment_of_now_is_in() -> None:
    assert stretch(HOURLY, START, START) is None
    assert stretch(HOURLY, START, START + HOUR) == between(9, 9, 1)


def test_the_newest_is_found_from_behind() -> None:
    assert newest(HOURLY, START, NOON + 59 * MINUTE) == NOON
    assert newest(HOURLY, NOON, NOON + 59 * MINUTE) is None


def test_a_rule_that_has_ended_has_nothing_after_its_end() -> None:
    ended = bounded(HOURLY, end=START + 90 * MINUTE)
    assert stretch(ended, START, NOON) == between(9, 9, 1)
    assert stretch(at(START), START, NOON) is None


def test_a_stretch_that_cannot_be_counted_is_one_all_the_same() -> None:
    dense = every("7s") | cron("* * * * * *", zone="UTC")
    end = START + timedelta(days=3650)
    assert stretch(dense, START, end) == MomentRange(START + timedelta(seconds=1), end, None)


RULES = [
    every("7m"),
    cron("*/20 * * * *", zone="Europe/Berlin"),
    every("10m") - cron("0 * * * *", zone="UTC"),
]


POLICIES = st.builds(
    Missed,
    st.sampled_from(get_args(Catchup)),
    at_most=st.integers(1, 30),
    grace=st.just(5 * MINUTE),
)


@given(rule=st.sampled_from(RULES), missed=POLICIES, minutes=st.integers(0, 500))
def test_what_is_picked_and_what_is_left_are_all_there_is(
    rule: Rule, missed: Missed, minutes: int
) -> None:
    now = START + minutes * MINUTE
    due = list(rule.between(START, now))
    found = pick(missed, rule, after=START, now=now)
    older = due[: len(due) - len(found.moments)]
    assert older + found.moments == due
    assert found.left == (MomentRange(older[0], older[-1], len(older)) if older else None)
