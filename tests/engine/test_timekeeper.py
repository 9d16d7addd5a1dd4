"""When the database's clock is believed."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from duly.clock import boottime, now
from duly.engine.timekeeper import Timekeeper

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def verdicts(*reads: tuple[float, float]) -> list[bool]:
    """What is said to each read of the database's and our own clock."""
    keeper = Timekeeper()
    return [keeper.trusts(at(database), own) for database, own in reads]


def test_the_first_read_is_trusted_whatever_it_says() -> None:
    assert verdicts((10**9, 5)) == [True]


def test_clocks_that_go_alike_are_trusted() -> None:
    assert all(verdicts(*[(read * 0.5, 700 + read * 0.5) for read in range(100)]))


def test_a_slow_drift_is_no_jump_however_far_it_leads() -> None:
    assert all(verdicts(*[(read * 31, read * 30) for read in range(1000)]))


@pytest.mark.parametrize("jump", [61, 7_200, 10**8, -61, -7_200, -(10**8)])
def test_a_clock_that_jumped_is_not_trusted(jump: int) -> None:
    assert verdicts((0, 0), (1 + jump, 1), (2 + jump, 2)) == [True, False, False]


@pytest.mark.parametrize("step", [59, -59])
def test_a_step_of_less_than_a_minute_is_trusted(step: int) -> None:
    assert verdicts((0, 0), (1 + step, 1)) == [True, True]


def test_a_machine_that_was_suspended_is_trusted_for_both_clocks_went_on() -> None:
    assert verdicts((0, 0), (28_800, 28_800)) == [True, True]


def test_a_database_that_stood_still_while_we_went_on_is_not_trusted() -> None:
    assert verdicts((0, 0), (0, 300)) == [True, False]


def test_trust_returns_when_three_reads_agree_over_ten_seconds() -> None:
    jumped = [(3_600 + second, second) for second in (1.0, 4.0, 8.0, 10.9, 11.0)]
    assert verdicts((0, 0), *jumped) == [True, False, False, False, False, True]


def test_two_reads_are_not_enough_however_far_apart() -> None:
    jumped = [(3_600 + second, second) for second in (1, 31, 32)]
    assert verdicts((0, 0), *jumped) == [True, False, False, True]


def test_a_second_jump_starts_the_wait_again() -> None:
    ahead = [(3_600 + second, second) for second in (1, 4, 8)]
    corrected = [(second, second) for second in (9, 12, 18, 19)]
    assert verdicts((0, 0), *ahead, *corrected) == [True, *[False] * 6, True]


def test_after_its_return_trust_can_be_lost_again() -> None:
    there = [(3_600 + second, second) for second in (1, 6, 11)]
    back = [(second, second) for second in (12, 17, 22)]
    assert verdicts((0, 0), *there, *back) == [True, False, False, True, False, False, True]


def test_the_jump_is_the_part_of_the_move_that_we_did_not_make() -> None:
    keeper = Timekeeper()
    keeper.trusts(at(0), 0)
    keeper.trusts(at(-3_590), 10)
    assert keeper.jump == timedelta(seconds=-3_600)


def test_the_real_clocks_of_this_machine_are_trusted_and_never_go_back() -> None:
    keeper = Timekeeper()
    reads = [(now(), boottime()) for _ in range(100)]
    assert all(keeper.trusts(database, own) for database, own in reads)
    assert all(earlier[1] <= later[1] for earlier, later in pairwise(reads))
