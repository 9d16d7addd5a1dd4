"""The plain function of a task can be tested without a worker."""

from datetime import UTC, datetime

import pytest

from duly import Duly, current
from duly.errors import InvalidValue, NotInAJob
from duly.testing import context

duly = Duly()
NIGHT = datetime(2027, 1, 3, 2, tzinfo=UTC)


@duly.task
def report() -> str:
    here = current()
    here.progress(50, "half")
    return "stopped" if here.cancelled else f"{here.due_at:%Y-%m-%d} {here.attempt}"


def test_a_task_sees_the_moment_it_is_given() -> None:
    with context(due_at=NIGHT, attempt=2) as rehearsal:
        assert report() == "2027-01-03 2"
    assert rehearsal.told == [(50.0, "half", None)]


def test_a_task_can_be_told_to_stop() -> None:
    with context(due_at=NIGHT) as rehearsal:
        rehearsal.stop = "enough"
        assert report() == "stopped"


def test_outside_there_is_no_context_and_inside_no_transaction() -> None:
    with pytest.raises(NotInAJob, match=r"duly\.testing\.context"):
        report()
    with context(due_at=NIGHT), pytest.raises(InvalidValue, match="rehearsed"):
        current().transaction()
