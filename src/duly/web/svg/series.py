"""Charts over time: counts as columns that stand on one another, lengths as lines.

The drawing is stretched to the width that a page has for it, so it holds no text: what the axes say
stands around it. Whoever points at a stretch reads its values, and lines differ in their strokes as
well as in their colours.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10

from markupsafe import Markup

STEP, HEIGHT = 10, 100  # of a stretch, and of the drawing
ROOM = 1  # between two columns
_NICE = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    name: str  # as the legend says it
    kind: str  # its class in the stylesheet
    values: Sequence[float | None]  # None: nothing is known, or there is nothing to measure
    summary: str = ""  # of all of them, in a word; empty: the latest is told

    @property
    def last(self) -> float | None:
        """The latest that is known."""
        return next((value for value in reversed(self.values) if value is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    about: str  # what it shows, in a few words
    lines: Sequence[ChartLine]
    labels: Sequence[str]  # of the stretches, as the reader's clock has them
    shown: Callable[[float], str]  # a value in words
    stacked: bool = False

    @property
    def is_empty(self) -> bool:
        return not any(line.last for line in self.lines)

    @property
    def top(self) -> float:
        """What the highest line of the scale stands for: a number that reads well."""
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
        """One stretch in words."""
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
        """A stroke for each row of values without a gap; one that is alone is as wide as it is."""
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
        """What somebody is told who does not see it."""
        if self.is_empty:
            return f"{self.title}: nothing yet"
        said = [f"{one.name} {self.shown(one.last)}" for one in self.lines if one.last is not None]
        return f"{self.title}, {self.about}; the latest: {', '.join(said)}"


def nice(value: float) -> float:
    """The first that reads well and is not below it: 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15 and so on."""
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
