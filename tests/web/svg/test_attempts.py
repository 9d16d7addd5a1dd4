"""The life of a job on a line."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import pairwise

from duly.web.svg.gantt import AttemptBar, Kind, draw_attempts

START = datetime(2026, 3, 2, 12, tzinfo=UTC)


def stretch(kind: Kind, start: float, end: float, title: str = "") -> AttemptBar:
    at = START + timedelta(seconds=start)
    return AttemptBar(kind=kind, start=at, end=at + timedelta(seconds=end - start), title=title)


def bars(drawing: str) -> list[tuple[str, float, float]]:
    found = re.findall(r'<rect class="([a-z-]+)" x="([\d.]+)%" y="\d+" width="([\d.]+)%"', drawing)
    return [(name, float(left), float(width)) for name, left, width in found]


def test_every_stretch_has_its_place_and_its_part() -> None:
    life = [stretch("waiting", 0, 10), stretch("failed", 10, 20), stretch("pause", 20, 60)]
    drawing = draw_attempts([*life, stretch("succeeded", 60, 100)], "two attempts")
    assert bars(drawing) == [
        ("waiting", 0, 10),
        ("failed", 10, 10),
        ("pause", 20, 40),
        ("succeeded", 60, 40),
    ]
    assert re.findall('middle">(.)</text>', drawing) == ["✕", "●"]


def test_what_took_no_time_is_seen_within_the_line() -> None:
    life = [stretch("waiting", 0, 1_000_000), stretch("failed", 1_000_000, 1_000_000)]
    (_, _, _), (_, left, width) = bars(draw_attempts(life, ""))
    assert width > 0
    assert left + width <= 100
    [(_, left, width)] = bars(draw_attempts([stretch("running", 0, 0)], ""))
    assert 0 <= left < left + width <= 100


def test_many_attempts_leave_room_between_their_marks() -> None:
    life = [stretch("failed", number, number + 0.5) for number in range(1_000)]
    places = [float(at) for at in re.findall(r'<text x="([\d.]+)%"', draw_attempts(life, ""))]
    assert all(later - earlier >= 1.99 for earlier, later in pairwise(places))
    assert 0 < places[0] <= places[-1] < 100


def test_titles_are_text() -> None:
    evil = '"><script>alert(1)</script>'
    drawing = draw_attempts([stretch("failed", 0, 1, evil)], evil)
    assert "<script" not in drawing
    assert unescape(drawing).count(evil) == 2


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw_attempts([], "") == ""
