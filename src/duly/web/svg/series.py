"""Time series charts: counts as stacked columns, durations as lines.

The SVG is stretched to the width of the page, so it holds no text: the template writes the axis
labels around it. Each interval has a tooltip with its values, and lines differ in their strokes as
well as in their colours.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10

from markupsafe import Markup

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
