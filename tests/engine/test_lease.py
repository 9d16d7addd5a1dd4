"""How long a worker may believe: always less than the store does."""

from datetime import timedelta

import pytest

from duly.engine.lease import LEASE, PATIENCE, Lease
from duly.engine.maintenance import MARGIN

LENGTH = timedelta(seconds=30)


def test_a_lease_is_renewed_after_a_fifth() -> None:
    assert Lease(LENGTH, 100.0).next_renewal() == 106.0


def test_it_is_doubtful_after_two_thirds() -> None:
    lease = Lease(LENGTH, 100.0)
    assert not lease.is_doubtful(119.9)
    assert lease.is_doubtful(120.0)
    assert lease.doubtful_at() == 120.0


def test_everything_has_stopped_before_it_ends() -> None:
    assert Lease(LENGTH, 100.0).last_moment() == 127.0


def test_it_counts_from_when_its_renewal_was_sent() -> None:
    lease = Lease(LENGTH, 100.0)
    lease.renewed(110.0)
    assert (lease.next_renewal(), lease.doubtful_at(), lease.last_moment()) == (116.0, 130.0, 137.0)


def test_one_that_the_store_calls_over_has_no_last_moment_left() -> None:
    lease = Lease(LENGTH, 100.0)
    lease.lost()
    assert lease.is_doubtful(100.0)
    assert lease.last_moment() < 100.0


def test_a_renewal_that_hangs_is_over_before_others_take_the_jobs() -> None:
    assert PATIENCE < MARGIN


def test_between_doubt_and_the_last_moment_there_is_time_to_stop() -> None:
    lease = Lease(LEASE, 0.0)
    assert lease.last_moment() - lease.doubtful_at() > 3


def test_time_in_which_nobody_could_write_does_not_count_and_the_renewal_stays_due() -> None:
    lease = Lease(timedelta(seconds=15), 100.0)
    due = lease.next_renewal()
    lease.stood_still(since=104.0, seconds=3.0)
    lease.stood_still(since=104.0, seconds=8.0)
    assert lease.last_moment() == pytest.approx(100 + 13.5 + 8)
    assert lease.next_renewal() == due
    lease.stood_still(since=lease.last_moment(), seconds=5.0)
    assert lease.last_moment() == pytest.approx(100 + 13.5 + 8), "it was over before"
    lease.renewed(120.0)
    assert lease.last_moment() == pytest.approx(120 + 13.5)
