"""Numbers: an operation that draws several times finds enough in the end."""

import pytest

from duly.store.ids import BLOCK, Dry, Ids


def test_what_was_drawn_before_it_was_too_little_is_given_back_and_counted() -> None:
    pool = Ids()
    pool.add(1)
    attempt = pool.attempt()
    first = list(attempt.draw(BLOCK - 1))
    with pytest.raises(Dry) as dry:
        attempt.draw(10)
    assert dry.value.needed == BLOCK - 1 + 10
    again = list(pool.draw(BLOCK))
    assert set(first) < set(again), "nothing is lost"
    assert len(set(again)) == BLOCK, "and nothing is there twice"


def test_nothing_is_given_back_twice() -> None:
    pool = Ids()
    pool.add(1)
    attempt = pool.attempt()
    for _ in range(2):
        list(attempt.draw(10))
        with pytest.raises(Dry):
            attempt.draw(BLOCK)
    again = list(pool.draw(BLOCK))
    assert len(set(again)) == BLOCK
