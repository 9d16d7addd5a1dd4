"""Gantt charts: of runs, with a lane for each schedule, queue or worker, and of a job's attempts.

Runs of a lane that overlap in time are drawn on separate lines, so a high lane shows overlap.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from markupsafe import Markup

from duly.durations import about
from duly.policy.redaction import shortened
from duly.policy.why import LocalClock
from duly.views.timeline import Bar, LaneOfBars, Timeline
from duly.web.svg.drawing import Axis, framed, line, number, rectangle, text, titled

LEFT, WIDTH = 180, 866
TOP, HIGH, GAP = 24, 18, 10
THINNEST = 2.5
MOST_LINES = 6  # of a lane; further runs are drawn over the last line
LONGEST_NAME = 26
BESIDE_NOW = 36  # no tick label this near to the line of the current time
BAR = HIGH - 4
# Besides its colour, a state has a shape: the offset from the top of the line, and the height.
SHAPES = {
    "failed": (BAR / 2, BAR / 2),
    "expired": (BAR / 2, BAR / 2),
    "cancelled": (BAR / 2 - 2, 4),
}


def gantt(
    timeline: Timeline, *, zone: str, job: Callable[[int], str], lane: Callable[[str], str]
) -> Markup:
    """Draw the timeline; ``job`` and ``lane`` return the URLs of a job and of a lane."""
    axis = Axis(start=timeline.start, end=timeline.end, left=LEFT, width=WIDTH)
    parts: list[Markup] = []
    top = float(TOP)
    for one in timeline.lanes:
        lines = _packed(one.bars, axis)
        parts += _lane(one, top, lane)
        for place, bars in enumerate(lines):
            parts += [
                _linked(bar, axis, LocalClock(zone, timeline.now), top=top + place * HIGH, job=job)
                for bar in bars
            ]
        top += max(len(lines), 1) * HIGH + GAP
    now = axis.x(timeline.now)
    frame = [
        _HATCH,
        *axis.drawn(zone, top=6, bottom=top, bare=(now - BESIDE_NOW, now + BESIDE_NOW)),
    ]
    parts += [line(now, 6, now, top, kind="now"), text(now + 3, 15, "now", kind="now-word")]
    return framed(
        [*frame, *parts],
        width=LEFT + WIDTH,
        height=top + 4,
        label=_told(timeline),
        kind="gantt",
        links=True,
    )


_HATCH = Markup(
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="5" height="5" class="hatch-ground"/>'
    '<line x1="0" y1="0" x2="0" y2="5" class="hatch-line"/></pattern></defs>'
)


def _packed(bars: Iterable[Bar], axis: Axis) -> list[list[Bar]]:
    """Return the lines of a lane: each bar is in the first line where it overlaps no other."""
    lines: list[list[Bar]] = []
    ends: list[datetime] = []
    for bar in sorted(bars, key=lambda one: one.start):
        place = next((n for n, end in enumerate(ends) if end <= bar.start), len(lines))
        place = min(place, MOST_LINES - 1)
        if place == len(lines):
            lines.append([])
            ends.append(bar.end)
        lines[place].append(bar)
        ends[place] = max(ends[place], bar.end)
    return [_thinned(one, axis) for one in lines]


def _thinned(bars: Sequence[Bar], axis: Axis) -> list[Bar]:
    """Drop bars that cannot be told apart from the previous one, which has the same state."""
    found: list[Bar] = []
    for bar in bars:
        last = found[-1] if found else None
        if (
            last is not None
            and last.state == bar.state
            and axis.x(bar.end) - axis.x(last.start) < THINNEST
        ):
            continue
        found.append(bar)
    return found


def _lane(one: LaneOfBars, top: float, lane: Callable[[str], str]) -> Iterator[Markup]:
    yield line(0, top - GAP / 2, LEFT + WIDTH, top - GAP / 2, kind="axis")
    name = shortened(one.name, LONGEST_NAME)
    label = text(0, top + HIGH * 0.72, name, kind="lane")
    yield (Markup('<a href="{}">{}</a>').format(lane(one.name), label) if one.link else label)


def _linked(
    bar: Bar, axis: Axis, clock: LocalClock, *, top: float, job: Callable[[int], str]
) -> Markup:
    x = axis.x(bar.start)
    width = max(axis.x(bar.end) - x, THINNEST)
    kind = f"bar {bar.state}{' collides' if bar.collides else ''}"
    down, height = SHAPES.get(bar.state, (0, BAR))
    drawn = rectangle(
        x,
        top + 1 + down,
        width=width,
        height=height,
        kind=kind,
        title=_title(bar, clock),
        radius=min(width / 4, 2),
    )
    if bar.state == "running":
        drawn += _open_end(x + width, top + 1)
    if bar.job_id is None:
        return drawn
    return Markup('<a href="{}" aria-label="{}">{}</a>').format(
        job(bar.job_id), _title(bar, clock), drawn
    )


def _open_end(x: float, top: float) -> Markup:
    """Return the arrowhead at the end of a bar whose run has not ended."""
    middle, bottom = top + BAR / 2, top + BAR
    return Markup('<path d="M{} {} L{} {} L{} {} Z" class="bar running">{}</path>').format(
        number(x), number(top), number(x + 6), number(middle), number(x), number(bottom),
        titled("still running"),
    )  # fmt: skip


def _title(bar: Bar, clock: LocalClock) -> str:
    name = bar.schedule or bar.task
    begins = clock.near(bar.start.replace(microsecond=0))
    length = about(max(bar.end - bar.start, timedelta()))
    if bar.state == "coming":
        said = f"{name} is due at {begins}"
        said += f", usually takes {length}" if bar.usual else ", nobody knows how long it takes"
    else:
        said = f"{name}, job {bar.job_id}: {bar.state}, began {begins}, "
        said += f"for {length} so far" if bar.state == "running" else f"took {length}"
    return f"{said}, while another run had not ended" if bar.collides else said


def _told(timeline: Timeline) -> str:
    bars = [bar for lane in timeline.lanes for bar in lane.bars]
    past = sum(bar.state not in ("coming", "running") for bar in bars)
    running = sum(bar.state == "running" for bar in bars)
    return (
        f"{past} runs that ended, {running} that run and {len(bars) - past - running} to come, "
        f"in {len(timeline.lanes)} lanes"
    )


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
