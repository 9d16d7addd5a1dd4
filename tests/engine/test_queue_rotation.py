"""Where a worker looks next: turns, ratios, and what is not certain."""

import pytest

from duly.engine.claim_planner import QueueRotation, QueueShelf
from duly.store.values import CAREFUL, CLOCK, IDLE, LOW, NORMAL, SUSPECT, ReadyShelf


def looks(
    rotation: QueueRotation, count: int, *, suspects: bool = True
) -> list[tuple[str, int] | None]:
    return [rotation.next(suspects=suspects) for _ in range(count)]


def test_a_worker_that_was_told_nothing_looks_nowhere() -> None:
    assert QueueRotation(["a", "b"]).next() is None


def test_queues_take_turns() -> None:
    rotation = QueueRotation(["a", "b", "c"])
    rotation.hint()
    assert [place.queue for _ in range(6) if (place := rotation.next())] == ["a", "b", "c"] * 2


def test_a_queue_that_was_empty_loses_its_turn() -> None:
    rotation = QueueRotation(["a", "b", "c"])
    rotation.hint()
    rotation.emptied(QueueShelf("b", NORMAL))
    assert looks(rotation, 4) == [("a", NORMAL), ("c", NORMAL)] * 2


def test_a_hint_names_its_queue() -> None:
    rotation = QueueRotation(["a", "b"])
    rotation.hint("b")
    assert looks(rotation, 2) == [("b", NORMAL)] * 2


def test_a_hint_about_a_queue_of_others_is_nothing() -> None:
    rotation = QueueRotation(["a"])
    rotation.hint("z")
    assert rotation.next() is None


def test_one_look_in_eight_is_for_low_work_while_there_is_normal() -> None:
    rotation = QueueRotation(["a"])
    rotation.seen([("a", NORMAL), ("a", LOW)])
    shelves = [place.shelf for _ in range(32) if (place := rotation.next())]
    assert shelves.count(LOW) == 4
    assert shelves.count(NORMAL) == 28


def test_each_queue_counts_its_own_looks() -> None:
    rotation = QueueRotation(["a", "b"])
    rotation.seen([("a", NORMAL), ("a", LOW), ("b", NORMAL), ("b", LOW)])
    found = looks(rotation, 32)
    assert found.count(("a", LOW)) == found.count(("b", LOW)) == 2


def test_low_work_comes_at_once_where_there_is_no_normal() -> None:
    rotation = QueueRotation(["a"])
    rotation.seen([("a", LOW), ("a", IDLE)])
    assert looks(rotation, 3) == [("a", LOW)] * 3


@pytest.mark.parametrize("shelf", [NORMAL, LOW, CAREFUL, SUSPECT])
def test_idle_work_waits_until_no_queue_has_any_other(shelf: int) -> None:
    rotation = QueueRotation(["a", "b"])
    rotation.seen([("a", IDLE), ("b", shelf)])
    assert looks(rotation, 20) == [("b", shelf)] * 20
    rotation.emptied(QueueShelf("b", shelf))
    assert rotation.next() == ("a", IDLE)


@pytest.mark.parametrize("shelf", [CAREFUL, SUSPECT])
def test_a_flood_of_normal_work_hides_nothing(shelf: int) -> None:
    rotation = QueueRotation(["a"])
    rotation.seen([("a", NORMAL), ("a", shelf)])
    assert looks(rotation, 16).count(("a", shelf)) == 2


def test_a_suspect_waits_for_the_one_before_it() -> None:
    rotation = QueueRotation(["a"])
    rotation.seen([("a", NORMAL), ("a", SUSPECT)])
    assert looks(rotation, 16, suspects=False) == [("a", NORMAL)] * 16
    rotation.emptied(QueueShelf("a", NORMAL))
    assert rotation.next(suspects=False) is None
    assert rotation.next(suspects=True) == ("a", SUSPECT)


def test_who_may_not_ask_for_what_needs_care_looks_elsewhere() -> None:
    rotation = QueueRotation(["a"])
    rotation.seen([("a", NORMAL), ("a", CAREFUL)])
    assert {rotation.next(careful=False) for _ in range(16)} == {("a", NORMAL)}


def test_what_a_peek_does_not_show_is_not_there() -> None:
    rotation = QueueRotation(["a", "b"])
    rotation.hint()
    rotation.seen([("b", LOW)])
    assert looks(rotation, 2) == [("b", LOW)] * 2
    rotation.seen([])
    assert rotation.knows_nothing


def test_neither_moments_of_schedules_nor_enqueued_work_starve_behind_the_other() -> None:
    rotation = QueueRotation(["a"])
    rotation.seen([("a", NORMAL), ("a", CLOCK)])
    shelves = [place.shelf for _ in range(16) if (place := rotation.next())]
    assert shelves.count(CLOCK) == 6
    assert shelves.count(NORMAL) == 10
    assert shelves[0] == CLOCK


def test_tasks_are_remembered_where_jobs_of_others_were_seen() -> None:
    rotation = QueueRotation(["a", "b"])
    rotation.seen([ReadyShelf("a", NORMAL, ("mail",)), ReadyShelf("b", NORMAL)])
    assert rotation.among(QueueShelf("a", NORMAL)) == ("mail",)
    assert rotation.among(QueueShelf("b", NORMAL)) == ()
    rotation.seen([ReadyShelf("a", NORMAL)])
    assert rotation.among(QueueShelf("a", NORMAL)) == ()
