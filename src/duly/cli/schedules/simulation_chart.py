"""Text chart of a simulation: one line for each due time, on a common time axis.

02:00  ████████████████████
03:00            ··········▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
04:00                      »
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final

import click

from duly.cli.formats import View, is_coloured
from duly.cli.output import roughly
from duly.instants import from_us, to_us
from duly.rehearse.story import ClockChange, Story, StoryMoment
from duly.rules import local_time
from duly.rules.zone import zone_named

NARROWEST = 50  # columns; bars are not readable below that
MOST_LINES = 60
_MINUTE, _HOUR, _DAY = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))
_STEPS: Final = (
    *(timedelta(milliseconds=n) for n in (1, 10, 100)),
    *(timedelta(seconds=n) for n in (1, 5, 15, 30)),
    *(n * _MINUTE for n in (1, 5, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 364, 3640, 36400)),
)
# Character, colour and legend of each kind of cell.
_MARKS: Final = {
    "runs": ("█", "green", "runs"),
    "late": ("▓", "yellow", "runs late"),
    "on": ("▸", "green", "goes on"),
    "waits": ("·", None, "waits"),
    "skipped": ("×", "red", "skipped"),
    "merged": ("»", "cyan", "merged"),
    "outage": ("░", "bright_black", "no scheduler"),
    "clock": ("┊", "magenta", ""),
    "": (" ", None, ""),
}
_AT_ITS_MOMENT: Final = {"skipped": "skipped", "expired": "skipped", "merged": "merged"}


def drawn(story: Story, *, zone: str, width: int) -> Iterator[str]:
    """Yield the axis, the lines and the legend; nothing if the terminal is too narrow."""
    if width < NARROWEST:
        click.echo(f"note: drawn from {NARROWEST} columns on; here are {width}", err=True)
        return
    labels = _labels(story.moments, zone)
    margin = max(map(len, labels)) + 2
    scale = _Scale(story.what.start, story.what.end, width - margin)
    yield f"{' ' * margin}{_axis(scale, zone)}".rstrip()
    ground = _ground(story, scale)
    seen = set(ground)
    for label, moment in list(zip(labels, story.moments, strict=True))[:MOST_LINES]:
        cells = _cells(moment, ground, scale)
        seen |= set(cells)
        yield f"{label.ljust(margin)}{_painted(cells)}".rstrip()
    if len(labels) > MOST_LINES:
        yield f"… and {len(labels) - MOST_LINES:,} more lines; choose a shorter stretch to see them"
    yield from _legend(seen, story.clock_changes, zone=zone, margin=margin)


@dataclass(frozen=True, slots=True)
class _Scale:
    start: datetime
    end: datetime
    width: int

    def column(self, moment: datetime) -> int:
        """Return the column of a time; the first or last one if it is outside the axis."""
        part = (moment - self.start) / (self.end - self.start)
        return min(max(int(part * self.width), 0), self.width - 1)

    def columns(self, start: datetime, end: datetime) -> range:
        """Return the columns of a period, at least one; ``end`` itself is not part of it."""
        first = self.column(start)
        return range(first, max(first, self.column(end - timedelta.resolution)) + 1)


def _cells(moment: StoryMoment, ground: Sequence[str], scale: _Scale) -> list[str]:
    cells = list(ground)
    due = scale.column(moment.due_at)
    mark = _AT_ITS_MOMENT.get(moment.outcome)
    if mark is None:
        begins = moment.starts_at or scale.end
        for column in range(due, scale.column(begins) + (moment.starts_at is None)):
            cells[column] = "waits"
    for attempt in moment.attempts:
        if attempt.start < scale.end:
            for column in scale.columns(attempt.start, attempt.end):
                cells[column] = "late" if moment.is_late else "runs"
            if attempt.end > scale.end:
                cells[-1] = "on"
    if mark is not None:
        cells[scale.column(moment.covers_from)] = cells[due] = mark
    return cells


def _ground(story: Story, scale: _Scale) -> list[str]:
    """Return the background cells of every line: outages and clock changes."""
    cells = [""] * scale.width
    for outage in story.what.outages:
        for column in scale.columns(outage.start, outage.end):
            cells[column] = "outage"
    for change in story.clock_changes:
        cells[scale.column(change.at)] = "clock"
    return cells


def _painted(cells: Sequence[str]) -> str:
    coloured = is_coloured()
    pieces = []
    for kind, run in groupby(cells):
        mark, colour, _ = _MARKS[kind]
        text = mark * len(list(run))
        pieces.append(click.style(text, fg=colour) if coloured and colour else text)
    return "".join(pieces)


def _labels(moments: Sequence[StoryMoment], zone: str) -> list[str]:
    dues = [local_time(moment.covers_from, zone) for moment in moments]
    day = "%a %d " if len({due.date() for due in dues}) > 1 else ""
    time = "%H:%M:%S" if any(due.second for due in dues) else "%H:%M"
    return [f"{due:{day}{time}}" for due in dues]


def _axis(scale: _Scale, zone: str) -> str:
    """Return the axis, as ``│00:00     │06:00``, at round local times."""
    length = scale.end - scale.start
    step = next(
        (step for step in _STEPS if step / length * scale.width >= _label_width(step)), _STEPS[-1]
    )
    line = ""
    for tick in _ticks(scale, step, zone):
        text = f"│{_tick_label(local_time(tick, zone), step)}"
        column = scale.column(tick)
        if len(line) <= column <= scale.width - len(text):
            line = line.ljust(column) + text
    return line


def _ticks(scale: _Scale, step: timedelta, zone: str) -> Iterator[datetime]:
    found, apart = zone_named(zone), step // timedelta.resolution
    since, until = to_us(scale.start), to_us(scale.end)
    wall = -(-(since + found.offsets[found.segment(since)]) // apart) * apart
    while (tick := found.reaches(wall, since)) < until:
        yield from_us(tick)
        wall += apart


def _tick_label(local: datetime, step: timedelta) -> str:
    if step >= _DAY:
        return f"{local:%d %b}"
    if step < timedelta(seconds=1):
        return f"{local:%H:%M:%S.%f}"[:-3]
    if step < _MINUTE:
        return f"{local:%H:%M:%S}"
    return f"{local:%a %d}" if not (local.hour or local.minute) else f"{local:%H:%M}"


def _label_width(step: timedelta) -> int:
    return len(_tick_label(datetime(2000, 1, 1, 1, tzinfo=UTC), step)) + 3


def _legend(
    seen: set[str], changes: Sequence[ClockChange], *, zone: str, margin: int
) -> Iterator[str]:
    """Yield the legend of the marks that occur, and the clock changes."""
    marks = [f"{mark} {said}" for kind, (mark, _, said) in _MARKS.items() if kind in seen and said]
    yield f"{' ' * margin}{'   '.join(marks)}"
    for change in changes:
        way = "forward" if change.by > timedelta() else "back"
        at = View(seconds=False).moment(change.at, zone)
        yield f"{' ' * margin}┊ clocks go {roughly(abs(change.by))} {way}: {at}"
