"""A fixed delay has one moment at a time, and the end of its run decides the next."""

from typing import Any

import pytest

from duly.model.fire import Cause
from duly.model.policies import Missed
from duly.model.schedule import Pause
from duly.policy.firing import first_moment, moment_after_end
from duly.policy.overlap import HURRIED
from tests.policy.deciding import DAY, HOUR, MINUTE, SECOND, at, decided, job, rows, schedule

DUE = at("2026-06-03 08:00")


def test_a_fixed_delay_fires_its_moment_and_awaits_the_end_of_its_job() -> None:
    firing = decided(schedule("spaced 10m", "2026-06-03 07:00", next_at=DUE), "2026-06-03 08:00:01")
    assert rows(firing) == ["03 08:00 queued"]
    assert (firing.awaits, firing.next_at) == (True, None)
    assert firing.jobs[0].ready_at == DUE


def test_a_fixed_delay_that_is_not_over_is_left_alone() -> None:
    firing = decided(schedule("spaced 10m", "2026-06-03 07:00", next_at=DUE), "2026-06-03 07:59")
    assert (firing.entries, firing.next_at, firing.awaits) == ([], DUE, False)


def test_a_fixed_delay_that_awaits_a_run_has_nothing_to_decide() -> None:
    firing = decided(schedule("spaced 10m", "2026-06-03 07:00", awaiting=5), "2026-06-03 09:00")
    assert (firing.entries, firing.next_at, firing.awaits) == ([], None, False)


def test_a_fixed_delay_whose_moment_is_settled_begins_anew() -> None:
    found = schedule("spaced 10m", "2026-06-03 07:00", next_at=DUE)
    firing = decided(found, "2026-06-03 08:00:01", settled=[DUE])
    assert (firing.entries, firing.awaits) == ([], False)
    assert firing.next_at == at("2026-06-03 08:10:01")


@pytest.mark.parametrize(
    ("policies", "cause"),
    [
        ({"start_within": MINUTE}, Cause.LATE),
        ({"missed": Missed("skip", grace=MINUTE)}, Cause.MISSED),
    ],
)
def test_a_fixed_delay_that_is_too_late_is_skipped_and_begins_anew(
    policies: dict[str, Any], cause: Cause
) -> None:
    found = schedule("spaced 10m", "2026-06-03 07:00", next_at=DUE, **policies)
    assert rows(decided(found, DUE + MINUTE)) == ["03 08:00 queued"]
    firing = decided(found, DUE + MINUTE + SECOND)
    assert rows(firing) == [f"03 08:00 skipped {cause}"]
    assert (firing.awaits, firing.next_at) == (False, DUE + 11 * MINUTE + SECOND)


def test_a_late_fixed_delay_may_hurry() -> None:
    found = schedule(
        "spaced 10m", "2026-06-03 07:00", next_at=DUE, start_within=MINUTE, late="hurry"
    )
    assert decided(found, DUE + HOUR).jobs[0].priority == HURRIED


def test_a_fixed_delay_meets_a_run_by_hand_under_its_overlap_policy() -> None:
    waiting = job("ready", "2026-06-03 07:58")
    skips = schedule("spaced 10m", "2026-06-03 07:00", next_at=DUE)
    firing = decided(skips, DUE, live=[waiting])
    assert rows(firing) == ["03 08:00 skipped overlap"]
    assert (firing.awaits, firing.next_at) == (False, DUE + 10 * MINUTE)
    joins = schedule("spaced 10m", "2026-06-03 07:00", next_at=DUE, overlap="queue_one")
    firing = decided(joins, DUE, live=[waiting])
    assert firing.entries[-1].takes_over == waiting
    assert (firing.awaits, firing.next_at, firing.jobs) == (True, None, [])


@pytest.mark.parametrize(("first", "fired"), [("now", True), ("wait", False)])
def test_after_a_pause_a_fixed_delay_begins_like_a_new_one(first: str, fired: bool) -> None:
    pause = Pause(since=DUE - HOUR, until=DUE)
    found = schedule("spaced 10m", "2026-06-03 07:00", next_at=DUE, pause=pause, first=first)
    now = DUE + 5 * SECOND
    firing = decided(found, now)
    assert [entry.due_at for entry in firing.entries] == [now] * fired
    assert firing.next_at == (None if fired else now + 10 * MINUTE)
    assert firing.awaits is fired


def test_after_a_pause_a_fixed_delay_does_not_overtake_the_run_it_awaits() -> None:
    pause = Pause(since=DUE - HOUR, until=DUE)
    found = schedule(
        "spaced 10m", "2026-06-03 07:00", next_at=DUE, pause=pause, awaiting=5, overlap="allow"
    )
    firing = decided(found, DUE)
    assert (firing.entries, firing.next_at, firing.awaits) == ([], None, False)


def test_the_first_moment_of_a_fixed_delay_is_now_or_one_delay_later() -> None:
    assert first_moment(schedule("spaced 10m", DUE).plan, DUE) == DUE
    assert first_moment(schedule("spaced 10m", DUE, first="wait").plan, DUE) == DUE + 10 * MINUTE
    bounded = schedule("spaced 10m", DUE, start=DUE + DAY)
    assert first_moment(bounded.plan, DUE) == DUE + DAY


def test_the_delay_counts_from_the_end_of_the_run_and_ends_with_the_schedule() -> None:
    bounded = schedule("spaced 10m", DUE, end=DUE + HOUR)
    assert moment_after_end(bounded, DUE) == DUE + 10 * MINUTE
    assert moment_after_end(bounded, DUE + HOUR) is None
    assert moment_after_end(schedule("every 10m", DUE), DUE) is None
