"""What an exclusion takes away is found by halving, wherever it lies."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.policy.due_moments import MomentRange, left_out
from duly.rules import Rule, cron, every, parse
from duly.rules import at as once
from tests.policy.deciding import MINUTE, at, moments_of

START = at("2026-06-03 08:00")
RULES = [
    "every 1m",
    "every 7m",
    "*/5 * * * * Europe/Berlin",
    "0 9 * * * UTC",
    "every 5m | every 7m",
]
EXCLUSIONS = [
    "0 * * * * UTC",
    "0 9 3 6 * UTC",
    "every 3m",
    "0 2 * * * Europe/Berlin lasting=90m",
    "Sat,Sun Europe/Berlin lasting=1d",
]


@given(
    rule=st.sampled_from(RULES),
    exclusion=st.sampled_from(EXCLUSIONS),
    since=st.integers(0, 5_000),
    minutes=st.integers(0, 5_000),
)
def test_what_is_left_out_is_what_a_walk_finds(
    rule: str, exclusion: str, since: int, minutes: int
) -> None:
    timing, excluded = parse(rule), parse(exclusion)
    assert isinstance(timing, Rule)
    assert isinstance(excluded, Rule)
    kept = timing - excluded
    after = START + since * MINUTE / 7
    until = after + minutes * MINUTE
    lost = sorted({*moments_of(timing, after, until)} - {*moments_of(kept, after, until)})
    found = left_out(timing, kept, after=after, until=until)
    assert found == (MomentRange(lost[0], lost[-1], len(lost)) if lost else None)


@pytest.mark.parametrize("first", range(8))
@pytest.mark.parametrize("last", range(8))
def test_moments_a_microsecond_apart_are_told_from_each_other(first: int, last: int) -> None:
    def moments(*places: int) -> Rule:
        return once(",".join(f"2026-06-03T08:00:00.{place + 1:06}Z" for place in places))

    timing = moments(*range(8))
    kept = timing - moments(first, last)
    found = left_out(timing, kept, after=START, until=START + 8 * timedelta(microseconds=1))
    low, high = sorted((first, last))
    assert found is not None
    assert (found.first.microsecond, found.last.microsecond) == (low + 1, high + 1)


def test_behind_the_cursor_nothing_is_left_out() -> None:
    timing = every("1m")
    kept = timing - every("1h")
    assert left_out(timing, kept, after=START, until=START - 90 * MINUTE) is None


@pytest.mark.parametrize("days", [1, 400])
def test_one_excluded_second_is_found_in_a_day_or_a_year(days: int) -> None:
    timing = every("1s")
    kept = timing - once("2026-06-03T09:00:07Z")
    found = left_out(timing, kept, after=START, until=START + timedelta(days=days))
    assert found == MomentRange(at("2026-06-03 09:00:07"), at("2026-06-03 09:00:07"), 1)


def test_what_is_too_dense_to_be_counted_is_not_written_down() -> None:
    timing = every("7s") | cron("* * * * * *", zone="UTC")
    kept = timing - cron("0 * * * *", zone="UTC")
    assert left_out(timing, kept, after=START, until=START + timedelta(days=3650)) is None
