"""Frames arrive whole, in whatever pieces their bytes come."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from duly.engine.executors.process.frames import (
    LONGEST_FRAME,
    DoneFrame,
    FrameReader,
    InvalidFrame,
    LogFrame,
    from_child,
    packed,
)
from duly.engine.executors.process.pool import FIRST_PAUSE, LONGEST_PAUSE, StartBackoff


@given(texts=some.lists(some.text(max_size=50)), cuts=some.lists(some.integers(0, 500)))
def test_frames_come_out_as_they_went_in(texts: list[str], cuts: list[int]) -> None:
    frames = [LogFrame(7, "info", text) for text in texts]
    stream = b"".join(map(packed, frames))
    edges = sorted({0, *(cut % (len(stream) + 1) for cut in cuts), len(stream)})
    inbox = FrameReader()
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert [from_child(body) for piece in pieces for body in inbox.feed(piece)] == frames


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(InvalidFrame, match="4,294,967,295 bytes"):
        list(FrameReader().feed(b"\xff\xff\xff\xff"))
    with pytest.raises(InvalidFrame):
        from_child(b'["Begin", 1]')
    with pytest.raises(ValueError, match="at most"):
        packed(DoneFrame("x" * LONGEST_FRAME))


def test_pauses_grow_while_there_is_trouble_and_are_shared() -> None:
    trouble = StartBackoff()
    assert trouble.pause(10.0) == FIRST_PAUSE
    assert trouble.pause(10.0 + FIRST_PAUSE / 2) == FIRST_PAUSE / 2
    assert trouble.pause(10.0 + FIRST_PAUSE) == 2 * FIRST_PAUSE
    waits = [trouble.pause(1000.0 * n) for n in range(1, 9)]
    assert waits[-1] == LONGEST_PAUSE
    trouble.reset()
    assert trouble.pause(1e6) == FIRST_PAUSE
