"""When the database's clock is believed, and by whom."""

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from duly.clock import boottime, now
from duly.engine.maintenance import DELETING
from duly.engine.timekeeper import LEASES, ORDINARY, Caution, Timekeeper
from duly.events import ClockDistrusted, ClockTrusted, EngineEvent
from duly.store.store import Store
from tests.engine.workshop import memory_store

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = 3_600


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


class Node:
    """A node whose own clock, and whose database's, are set by hand."""

    def __init__(self, store: Store) -> None:
        self.events: list[EngineEvent] = []
        self._own = 0.0
        self._keeper = Timekeeper(store, emit=self.events.append, steady=lambda: self._own)

    def reads(
        self, reads: Iterable[tuple[float, float]], caution: Caution = ORDINARY, takes: float = 0
    ) -> list[bool]:
        """Read the database's clock at moments of our own; an answer ``takes`` a while."""
        verdicts = []
        for database, own in reads:
            self._own = own
            judge = self._keeper.ask(caution)
            self._own = own + takes
            verdicts.append(judge(START + timedelta(seconds=database)))
        return verdicts


@pytest.fixture
def node(store: Store) -> Node:
    return Node(store)


def test_the_first_read_is_trusted_whatever_it_says(node: Node) -> None:
    assert node.reads([(10**9, 5)]) == [True]


def test_clocks_that_go_alike_are_trusted(node: Node) -> None:
    reads = [(read * 0.5, 700 + read * 0.5) for read in range(100)]
    assert all(node.reads(reads, LEASES))
    assert node.events == []


def test_a_slow_drift_is_no_jump_however_far_it_leads(node: Node) -> None:
    assert all(node.reads([(read * 31, read * 30) for read in range(1000)]))


def test_a_clock_that_is_slewed_as_fast_as_chrony_does_is_no_jump(node: Node) -> None:
    assert all(node.reads([(read * 1.0834, read) for read in range(1000)], LEASES))


@pytest.mark.parametrize("jump", [61, 7_200, 10**8, -61, -7_200, -(10**8)])
def test_a_clock_that_jumped_is_not_trusted(node: Node, jump: int) -> None:
    assert node.reads([(0, 0), (1 + jump, 1), (2 + jump, 2)]) == [True, False, False]


@pytest.mark.parametrize("step", [59, -59])
def test_a_step_of_less_than_a_minute_is_trusted(node: Node, step: int) -> None:
    assert node.reads([(0, 0), (1 + step, 1)]) == [True, True]


@pytest.mark.parametrize("step", [2, 14, 59, -59])
def test_about_leases_it_is_not(node: Node, step: int) -> None:
    assert node.reads([(0, 0), (1 + step, 1)], LEASES) == [True, False]
    assert node.reads([(19 + step, 19)], LEASES) == [True]


def test_steps_that_are_small_one_by_one_are_large_together(node: Node) -> None:
    assert node.reads([(second * 1.5, second) for second in range(10)], LEASES)[-1] is False


def test_a_machine_that_was_suspended_is_trusted_for_both_clocks_went_on(node: Node) -> None:
    assert node.reads([(0, 0), (28_800, 28_800)], LEASES) == [True, True]


def test_a_database_that_stood_still_while_we_went_on_is_not_trusted(node: Node) -> None:
    assert node.reads([(0, 0), (0, 300)]) == [True, False]


def test_trust_returns_when_the_clock_has_gone_steadily_for_ten_seconds(node: Node) -> None:
    jumped = [(100 + second, second) for second in (1.0, 4.0, 8.0, 10.9, 11.0)]
    assert node.reads([(0, 0), *jumped]) == [True, False, False, False, False, True]


def test_the_further_a_clock_jumped_ahead_the_longer_it_is_watched(node: Node) -> None:
    jumped = [(2 * HOUR + second, second) for second in (1, 60, 120, 121)]
    assert node.reads([(0, 0), *jumped]) == [True, False, False, False, True]
    jumped = [(10**8 + second, second) for second in (130, 700, 731)]
    assert node.reads(jumped) == [False, False, True]


def test_a_clock_that_was_set_back_is_watched_for_ten_seconds(node: Node) -> None:
    back = [(second - 2 * HOUR, second) for second in (1, 10, 11)]
    assert node.reads([(0, 0), *back]) == [True, False, False, True]


def test_a_second_jump_starts_the_wait_again(node: Node) -> None:
    ahead = [(HOUR + second, second) for second in (1, 4, 8)]
    corrected = [(second, second) for second in (9, 12, 18, 19)]
    assert node.reads([(0, 0), *ahead, *corrected]) == [True, *[False] * 6, True]


def test_after_its_return_trust_can_be_lost_again(node: Node) -> None:
    there = [(100 + second, second) for second in (1, 6, 11)]
    back = [(second, second) for second in (12, 17, 22)]
    assert node.reads([(0, 0), *there, *back]) == [True, False, False, True, False, False, True]


def test_an_answer_that_takes_long_is_no_jump(node: Node) -> None:
    assert node.reads([(0, 0), (1, 1)], LEASES) == [True, True]
    node.reads([(3, 2)], takes=8)  # read in the middle of eight seconds
    assert node.reads([(11, 11), (12, 12)], LEASES) == [True, True]
    assert node.events == []


def test_an_answer_in_which_a_jump_may_hide_says_nothing_about_leases(node: Node) -> None:
    assert node.reads([(0, 0), (1, 1)], LEASES) == [True, True]
    assert node.reads([(10, 2)], LEASES, takes=9) == [False]
    assert node.reads([(12, 12)], LEASES) == [True]
    assert node.reads([(20, 13)], takes=8) == [True]


def test_deletion_waits_until_the_clock_was_watched_for_ten_minutes(node: Node) -> None:
    assert node.reads([(0, 0), (599, 599), (600, 600)], DELETING) == [False, False, True]
    assert node.reads([(10**7, 601), (602, 602)], DELETING) == [False, False]
    assert node.reads([(1_201, 1_201), (1_203, 1_203)], DELETING) == [False, True]


def test_what_one_service_has_read_the_others_know(node: Node) -> None:
    assert node.reads([(0, 0), (HOUR, 1)]) == [True, False]
    assert node.reads([(HOUR + 1, 2)], LEASES) == [False]


def test_a_jump_is_told_once_and_so_is_its_end(node: Node) -> None:
    node.reads([(0, 0), (HOUR + 1, 1), (HOUR + 2, 2)])
    node.reads([(HOUR + 3, 3)], LEASES)
    node.reads([(HOUR + second, second) for second in (50, 61, 62)])
    assert node.events == [ClockDistrusted(jump=timedelta(hours=1)), ClockTrusted()]


def test_the_jump_is_the_part_of_the_move_that_we_did_not_make(node: Node) -> None:
    node.reads([(0, 0), (10 - HOUR, 10)])
    assert node.events == [ClockDistrusted(jump=timedelta(hours=-1))]


async def test_it_looks_by_itself(store: Store) -> None:
    node = Node(store)
    await node._keeper.tick()
    late = (now() + timedelta(hours=1) - START).total_seconds()
    assert node.reads([(late, 0)]) == [False]


async def test_the_real_clocks_of_this_machine_are_trusted_and_never_go_back(store: Store) -> None:
    keeper = Timekeeper(store)
    reads = [(keeper.ask(LEASES)(now()), boottime()) for _ in range(100)]
    assert all(trusted for trusted, _ in reads)
    assert all(earlier <= later for (_, earlier), (_, later) in pairwise(reads))
