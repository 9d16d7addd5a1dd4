"""Numbers: an operation that draws several times finds enough in the end."""

from collections.abc import Iterator

import pytest

from duly.store.database import Ask, Operation
from duly.store.ids import BLOCK, Dry, Forgotten, Ids, KeptIds, NumbersTaken


def drawn(drawing: Operation[Iterator[int]], *answers: list[tuple[int]]) -> list[int]:
    """The numbers, by a database that gives these answers."""
    ask: Ask | None = next(drawing, None) if answers else None
    try:
        for answer in answers:
            assert ask is not None
            assert ask.statement == "confirm_ids"
            ask = drawing.send(answer)
        next(drawing)
    except StopIteration as end:
        return list(end.value)
    raise AssertionError("it asks for more")


def test_what_was_drawn_before_it_was_too_little_is_given_back_and_counted() -> None:
    pool = Ids()
    pool.add(1)
    attempt = pool.attempt()
    first = drawn(attempt.draw(BLOCK - 1))
    with pytest.raises(Dry) as dry:
        drawn(attempt.draw(10))
    assert dry.value.needed == BLOCK - 1 + 10
    again = drawn(pool.draw(BLOCK))
    assert set(first) < set(again), "nothing is lost"
    assert len(set(again)) == BLOCK, "and nothing is there twice"


def test_nothing_is_given_back_twice() -> None:
    pool = Ids()
    pool.add(1)
    attempt = pool.attempt()
    for _ in range(2):
        drawn(attempt.draw(10))
        with pytest.raises(Dry):
            drawn(attempt.draw(BLOCK))
    again = drawn(pool.draw(BLOCK))
    assert len(set(again)) == BLOCK


def test_an_attempt_asks_once_whether_its_numbers_are_its_own() -> None:
    pool = Ids("me")
    pool.add(1)
    attempt = pool.attempt()
    assert drawn(attempt.draw(2), [(1,)]) == [1_000, 1_001]
    assert drawn(attempt.draw(1)) == [1_002]
    with pytest.raises(Forgotten) as forgotten:
        drawn(pool.attempt().draw(1), [])
    assert forgotten.value.ids is pool


def test_kept_numbers_stay_until_they_are_forgotten() -> None:
    pools = [Ids("old"), Ids("new")]
    for block, pool in enumerate(pools, 1):
        pool.add(block)
    kept = KeptIds(lambda: pools[0])
    assert [drawn(kept.draw(2), [(1,)]) for _ in range(2)] == [[1_000, 1_001]] * 2
    kept.all_new([], 2)  # an earlier run may have written them
    with pytest.raises(Forgotten):
        drawn(kept.draw(2), [])
    del pools[0]
    assert drawn(kept.draw(2), [(1,)]) == [2_000, 2_001]
    with pytest.raises(NumbersTaken, match="sequence is behind"):
        kept.all_new([(2_000,)], 2)


def test_nobody_counts_in_a_reservation_that_may_be_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, unheld = Ids("me"), Ids()
    for ids in (pool, unheld):
        ids.add(1)
    monkeypatch.setattr("duly.store.ids.boottime", lambda: float("inf"))
    with pytest.raises(Dry):
        pool.take(1)
    assert unheld.take(1) == [1_000]
