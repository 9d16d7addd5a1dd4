"""Chart of a job's attempts on one line: waiting, running, pauses between attempts, outcomes.

A thin bar is waiting time, a thick bar is run time. The chart is as wide as the page, so positions
are percentages, and no text is stretched.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from markupsafe import Markup

Kind: TypeAlias = Literal["waiting", "pause", "running", "succeeded", "failed"]

HEIGHT: Final = 34
MIDDLE: Final = 22
THICK: Final = {"waiting": 2, "pause": 2}  # other kinds have THICKEST
THICKEST: Final = 14
NARROWEST: Final = 0.4  # percent, so that a bar without duration is visible
EDGE: Final = 0.8  # percent, so that no mark is cut off at the edge
CLOSEST: Final = 2.0  # percent; closer marks would overlap
MARKS: Final = {"running": "◐", "succeeded": "●", "failed": "✕"}
CLASSES: Final = {
    "waiting": "waiting",
    "pause": "pause",
    "running": "in-progress",
    "succeeded": "succeeded",
    "failed": "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBar:
    """A period in the life of a job; ``title`` is its tooltip."""

    kind: Kind
    start: datetime
    end: datetime
    title: str


def draw_attempts(stretches: Sequence[AttemptBar], label: str) -> Markup:
    """Draw the bars on one line; ``stretches`` must be in order of time."""
    if not stretches:
        return Markup("")
    start = stretches[0].start
    whole = max(stretches[-1].end - start, timedelta(microseconds=1))
    places = [_place(one, start, whole) for one in stretches]
    bars = (_bar(one, *place) for one, place in zip(stretches, places, strict=True))
    return Markup(
        '<svg class="attempts" role="img" aria-label="{}" width="100%" height="{}">{}{}</svg>'
    ).format(label, HEIGHT, Markup("").join(bars), Markup("").join(_marks(stretches, places)))


def _place(one: AttemptBar, start: datetime, whole: timedelta) -> tuple[float, float]:
    """Return the left edge and the width of a bar, in percent."""
    left = min(100 * ((one.start - start) / whole), 100 - NARROWEST)
    width = max(100 * ((one.end - one.start) / whole), NARROWEST)
    return left, min(width, 100 - left)


def _bar(one: AttemptBar, left: float, width: float) -> Markup:
    thick = THICK.get(one.kind, THICKEST)
    return Markup(
        '<rect class="{}" x="{:.2f}%" y="{}" width="{:.2f}%" height="{}"><title>{}</title></rect>'
    ).format(CLASSES[one.kind], left, MIDDLE - thick // 2, width, thick, one.title)


def _marks(
    stretches: Sequence[AttemptBar], places: Sequence[tuple[float, float]]
) -> Iterator[Markup]:
    """Yield a mark above each attempt, so that outcomes do not depend on colour."""
    last = -CLOSEST
    for one, (left, width) in zip(stretches, places, strict=True):
        at = min(max(left + width / 2, EDGE), 100 - EDGE)
        if one.kind in MARKS and at - last >= CLOSEST:
            last = at
            yield Markup('<text x="{:.2f}%" y="10" text-anchor="middle">{}</text>').format(
                at, MARKS[one.kind]
            )
