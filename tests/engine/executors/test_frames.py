"""Frames arrive whole, in whatever pieces their bytes come."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from duly.engine.executors.process.frames import (
    LONGEST,
    Broken,
    Done,
    Inbox,
    Logged,
    from_child,
    packed,
)
from duly.engine.executors.process.trouble import FIRST, Trouble
from duly.engine.executors.process.trouble import LONGEST as LONGEST_PAUSE


@given(texts=some.lists(some.text(max_size=50)), cuts=some.lists(some.integers(0, 500)))
def test_frames_come_out_as_they_went_in(texts: list[str], cuts: list[int]) -> None:
    frames = [Logged(7, "info", text) for text in texts]
    stream = b"".join(map(packed, frames))
    edges = sorted({0, *(cut % (len(stream) + 1) for cut in cuts), len(stream)})
    inbox = Inbox()
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert [from_child(body) for piece in pieces for body in inbox.feed(piece)] == frames


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(Broken, match="4,294,967,295 bytes"):
        list(Inbox().feed(b"\xff\xff\xff\xff"))
    with pytest.raises(Broken):
        from_child(b'["Begin", 1]')
    with pytest.raises(ValueError, match="at most"):
        packed(Done("x" * LONGEST))


def test_pauses_grow_while_there_is_trouble_and_are_shared() -> None:
    trouble = Trouble()
    assert trouble.pause(10.0) == FIRST
    assert trouble.pause(10.0 + FIRST / 2) == FIRST / 2
    assert trouble.pause(10.0 + FIRST) == 2 * FIRST
    waits = [trouble.pause(1000.0 * n) for n in range(1, 9)]
    assert waits[-1] == LONGEST_PAUSE
    trouble.over()
    assert trouble.pause(1e6) == FIRST
