"""What was enqueued is asserted by a call, and what is missing is told beside what is there."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from duly import Duly
from duly.errors import InvalidValue
from duly.testing import Sandbox

NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)
duly = Duly()


@dataclass
class Card:
    number: str


@duly.task
def remind(class_id: int, *, urgent: bool = False) -> str:
    return f"{class_id}{'!' if urgent else ''}"


@duly.task
def charge(card: Card) -> None: ...


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(duly, now=NEW_YEAR) as box:
        yield box


def test_a_job_is_found_before_and_after_it_ran(box: Sandbox) -> None:
    remind.enqueue(42)
    waiting = box.assert_enqueued(remind.bind(42))
    box.run()
    ended = box.assert_enqueued(remind.bind(class_id=42))
    assert (waiting.id, waiting.state, ended.result()) == (ended.id, "ready", "42")


def test_equal_arguments_are_equal_however_they_are_given(box: Sandbox) -> None:
    remind.enqueue(class_id=42, urgent=False)
    charge.enqueue(Card("4711"))
    box.assert_enqueued(remind.bind(42))
    box.assert_not_enqueued(remind.bind(42, urgent=True))
    box.assert_enqueued(charge.bind(Card("4711")))
    box.assert_not_enqueued(charge.bind(Card("0815")))


def test_a_bare_task_is_any_of_its_jobs(box: Sandbox) -> None:
    box.assert_not_enqueued(remind)
    remind.enqueue(7)
    box.assert_enqueued(remind)
    box.assert_not_enqueued(charge)


def test_the_moment_counts_if_it_is_said(box: Sandbox) -> None:
    remind.using(run_after="24h").enqueue(42)
    box.assert_enqueued(remind.bind(42), at="24h")
    box.assert_enqueued(remind.bind(42), at="2027-01-02T01:00+01:00")
    box.assert_enqueued(remind.using(run_after="24h").bind(42))
    box.assert_not_enqueued(remind.using(run_after="23h").bind(42))
    box.assert_not_enqueued(remind, at="23h")
    box.travel("1h")
    box.assert_enqueued(remind.bind(42), at="23h")  # from now


def test_what_using_says_counts_too(box: Sandbox) -> None:
    remind.using(key="class:42", queue="mail", priority="high", tags=("a",)).enqueue(42)
    box.assert_enqueued(remind.using(key="class:42", queue="mail").bind(42))
    for other in (
        remind.using(key="class:41"),
        remind.using(queue="post"),
        remind.using(priority=0),
        remind.using(tags=("b",)),
    ):
        box.assert_not_enqueued(other.bind(42))


def test_what_is_missing_is_told_beside_what_is_there(box: Sandbox) -> None:
    with pytest.raises(AssertionError) as nothing:
        box.assert_enqueued(remind.bind(42))
    assert str(nothing.value) == "remind(class_id=42) was not enqueued; nothing was"
    remind.enqueue(41)
    box.run()
    charge.using(run_after="1h").enqueue(Card("4711"))
    with pytest.raises(AssertionError) as others:
        box.assert_enqueued(remind.using(queue="mail").bind(42), at="24h")
    assert str(others.value).splitlines() == [
        "remind(class_id=42) with queue='mail' for 2027-01-02 00:00:00 UTC was not enqueued; "
        "these were:",
        "  remind(class_id=41)  due 2027-01-01 00:00:00 UTC, succeeded",
        "  charge(card={'number': '4711'})  due 2027-01-01 01:00:00 UTC, scheduled",
    ]


def test_what_is_not_wanted_is_shown(box: Sandbox) -> None:
    remind.enqueue(1)
    remind.enqueue(2)
    with pytest.raises(AssertionError) as told:
        box.assert_not_enqueued(remind.bind(1))
    assert str(told.value).splitlines() == [
        "remind(class_id=1) was enqueued; as:",
        "  remind(class_id=1)  due 2027-01-01 00:00:00 UTC, ready",
    ]


def test_a_long_list_is_cut(box: Sandbox) -> None:
    duly.enqueue_many([remind.bind(number) for number in range(25)])
    with pytest.raises(AssertionError, match="… and 5 more"):
        box.assert_enqueued(charge)


def test_only_tasks_and_calls_are_enqueued(box: Sandbox) -> None:
    with pytest.raises(InvalidValue, match=r"task\.bind"):
        box.assert_enqueued("remind")  # type: ignore[arg-type]
