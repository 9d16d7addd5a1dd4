"""Charts of the last hours: time series, and the strip of a day.

A series of counts is drawn as stacked columns, one of durations as lines. Its SVG is stretched to
the width of the page, so it holds no text: the template writes the axis labels around it. Each
interval has a tooltip with its values, and lines differ in their strokes besides their colours.

In the day strip each hour is a bar whose height shows how many runs were due. Its segments are the
shares of the results, the worst on top, and its mark is that of the worst result. Coming hours are
pale. Each bar links to its hour.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import floor, log2, log10
from typing import Final

from markupsafe import Markup

from duly.rules import local_time
from duly.views.charts import ComingHour, HourCell, StripView

STEP, HEIGHT = 10, 100  # width of an interval, height of the chart
ROOM = 1  # at each side of a column
_NICE = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    name: str  # in the legend
    kind: str  # its class in the stylesheet
    values: Sequence[float | None]  # None if unknown, or if there was nothing to measure
    summary: str = ""  # of all values, for the legend; if empty, the latest value

    @property
    def last(self) -> float | None:
        """The latest known value."""
        return next((value for value in reversed(self.values) if value is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    about: str  # short description
    lines: Sequence[ChartLine]
    labels: Sequence[str]  # of the intervals, in the reader's time zone
    shown: Callable[[float], str]  # formats a value
    stacked: bool = False

    @property
    def is_empty(self) -> bool:
        return not any(line.last for line in self.lines)

    @property
    def top(self) -> float:
        """The value of the top grid line: a round number."""
        return nice(max([0.0, *self._heights()]))

    def drawing(self) -> Markup:
        parts = self._columns() if self.stacked else self._strokes()
        wide = len(self.labels) * STEP
        return Markup(
            '<svg class="series" viewBox="0 0 {wide} {high}" preserveAspectRatio="none" role="img" '
            'aria-label="{label}">{scale}{parts}{titles}</svg>'
        ).format(
            wide=wide,
            high=HEIGHT,
            label=self._label(),
            scale=_scale(wide),
            parts=Markup("").join(parts),
            titles=Markup("").join(self._titles()),
        )

    def said(self, place: int) -> str:
        """Return the tooltip of an interval: its label and values."""
        known = [(line.name, line.values[place]) for line in self.lines]
        words = [f"{name} {self.shown(value)}" for name, value in known if value is not None]
        return f"{self.labels[place]} · {', '.join(words) if words else 'nothing'}"

    def _heights(self) -> Iterator[float]:
        if not self.stacked:
            yield from (value for line in self.lines for value in line.values if value is not None)
            return
        for values in zip(*(line.values for line in self.lines), strict=True):
            yield sum(value or 0.0 for value in values)

    def _columns(self) -> Iterator[Markup]:
        for place in range(len(self.labels)):
            below = 0.0
            for line in self.lines:
                value = line.values[place] or 0.0
                if value:
                    yield self._column(place, line.kind, below=below, value=value)
                below += value

    def _column(self, place: int, kind: str, *, below: float, value: float) -> Markup:
        return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
            kind,
            place * STEP + ROOM,
            self._y(below + value),
            STEP - 2 * ROOM,
            _short(HEIGHT * value / self.top),
        )

    def _strokes(self) -> Iterator[Markup]:
        for line in self.lines:
            path = " ".join(self._pieces(line.values))
            yield Markup('<path class="{}" d="{}"/>').format(line.kind, path)

    def _pieces(self, values: Sequence[float | None]) -> Iterator[str]:
        """Yield the path: a stroke for each run of known values, a dash for a single one."""
        for place, value in enumerate(values):
            if value is None:
                continue
            begins = place == 0 or values[place - 1] is None
            ends = place == len(values) - 1 or values[place + 1] is None
            middle, y = place * STEP + STEP / 2, self._y(value)
            if begins and ends:
                yield f"M{place * STEP + ROOM} {y}H{(place + 1) * STEP - ROOM}"
            else:
                yield f"{'M' if begins else 'L'}{_short(middle)} {y}"

    def _titles(self) -> Iterator[Markup]:
        for place in range(len(self.labels)):
            yield Markup(
                '<rect class="hit" x="{}" y="0" width="{}" height="{}"><title>{}</title></rect>'
            ).format(place * STEP, STEP, HEIGHT, self.said(place))

    def _y(self, value: float) -> str:
        return _short(HEIGHT - HEIGHT * value / self.top)

    def _label(self) -> str:
        """Return the text for screen readers."""
        if self.is_empty:
            return f"{self.title}: nothing yet"
        said = [f"{one.name} {self.shown(one.last)}" for one in self.lines if one.last is not None]
        return f"{self.title}, {self.about}; the latest: {', '.join(said)}"


def nice(value: float) -> float:
    """Round up to the next of 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15 and so on."""
    if value <= 0:
        return 1.0
    size = 10.0 ** floor(log10(value))
    return next((step * size for step in _NICE if step * size >= value), 10 * size)


def _scale(wide: int) -> Markup:
    return Markup("").join(
        Markup('<line class="axis" x1="0" y1="{y}" x2="{wide}" y2="{y}"/>').format(y=y, wide=wide)
        for y in (0, HEIGHT / 2, HEIGHT)
    )


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


CELL, STRIP_HEIGHT, BASE = 22, 74, 52  # cell width, chart height, y of the base line
LEAST, MOST = 4, 44  # height of a bar
VISIBLE: Final = 2  # least height of a segment
LABELLED: Final = 3  # one label every so many hours
_MARKS: Final = {"failed": "\u2715", "overdue": "\u25b2", "late": "\u25d2", "in progress": "\u25d0"}

Link = Callable[[datetime], str]


def strip(view: StripView, zone: str, link: Link) -> Markup:
    cells: list[HourCell | ComingHour] = [*view.hours, *view.coming]
    tallest = max([1, *(cell.counts.due for cell in view.hours), *(c.moments for c in view.coming)])
    parts = [
        _cell(cell, place, zone=zone, tallest=tallest, link=link)
        for place, cell in enumerate(cells)
    ]
    now = len(view.hours) * CELL
    wide = len(cells) * CELL
    return Markup(
        '<svg class="strip" viewBox="0 0 {wide} {high}" role="group" aria-label="{label}" '
        'preserveAspectRatio="xMinYMin meet">{parts}'
        '<line class="now" x1="{now}" y1="2" x2="{now}" y2="{base}"/>'
        '<text class="at-now" x="{now}" y="{low}" text-anchor="middle">now</text></svg>'
    ).format(
        wide=wide,
        high=STRIP_HEIGHT,
        label=_strip_label(view),
        parts=Markup("").join(parts),
        now=now,
        base=BASE + 4,
        low=STRIP_HEIGHT - 4,
    )


def _cell(
    cell: HourCell | ComingHour, place: int, *, zone: str, tallest: int, link: Link
) -> Markup:
    start = local_time(cell.start, zone)
    if isinstance(cell, HourCell):
        count, kind, title = cell.counts.due, str(cell.worst), _said(cell)
        parts: Mapping[str, int] = dict(cell.counts.parts.items())
    else:
        count, kind, title = cell.moments, "coming", f"{cell.moments:,} coming"
        parts = {kind: count}
    high = LEAST + round((MOST - LEAST) * log2(1 + count) / log2(1 + tallest)) if count else 2
    name = Markup('<text x="{}" y="{}" text-anchor="middle">{:%H}</text>').format(
        place * CELL + CELL / 2, STRIP_HEIGHT - 4, start
    )
    return Markup(
        '<a href="{link}" aria-label="{hour:%a %H:%M}: {title}">'
        "<title>{hour:%a %H:%M}\u2013{until} \u00b7 {title}</title>"
        '<rect class="hit" x="{left}" y="0" width="{wide}" height="{base}"/>'
        "{bar}{mark}</a>{name}"
    ).format(
        link=link(cell.start),
        hour=start,
        until=f"{(start.hour + 1) % 24:02}:{start.minute:02}",
        title=title,
        left=place * CELL,
        wide=CELL,
        base=BASE,
        bar=_bar(parts if count else {"none": 1}, place, high),
        mark=_mark(kind, place, BASE - high) if count else "",
        name=name if start.hour % LABELLED == 0 and abs(place - _NOW) > 1 else "",
    )


def _bar(parts: Mapping[str, int], place: int, high: int) -> Markup:
    """Draw the segments of a bar, from the bottom up."""
    total, top, drawn = sum(parts.values()), float(BASE), []
    shares = {kind: max(VISIBLE, high * n / total) for kind, n in parts.items() if n}
    scale = high / sum(shares.values())
    for kind, share in shares.items():
        top -= share * scale
        drawn.append(
            Markup('<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}" rx="1"/>').format(
                kind.replace(" ", "-"), place * CELL + 3, top, CELL - 6, share * scale
            )
        )
    return Markup("").join(drawn)


_NOW = 24  # index of the line of the current time; no hour label beside it


def _mark(kind: str, place: int, top: int) -> Markup:
    sign = _MARKS.get(kind)
    if sign is None:
        return Markup("")
    return Markup('<text class="sign {}" x="{}" y="{}" text-anchor="middle">{}</text>').format(
        kind.replace(" ", "-"), place * CELL + CELL / 2, max(top - 3, 8), sign
    )


def _said(cell: HourCell) -> str:
    counts = cell.counts
    parts = [f"{counts.due:,} due", f"{counts.succeeded:,} OK"]
    parts += [f"{counts.late:,} late"] if counts.late else []
    parts += [f"{counts.failed:,} missed or failed"] if counts.failed else []
    parts += [f"{counts.overdue:,} overdue"] if counts.overdue else []
    parts += [f"{counts.in_progress:,} in progress"] if counts.in_progress else []
    return ", ".join(parts) if counts.due else "nothing was due"


def _strip_label(view: StripView) -> str:
    bad = [cell for cell in view.hours if cell.counts.failed or cell.counts.overdue]
    said = f"The last 24 hours: {view.counts.due:,} due, {view.counts.succeeded:,} OK"
    return f"{said}; not all OK in {len(bad)} of them" if bad else said
