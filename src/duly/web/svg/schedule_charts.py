"""Charts of a schedule: sparklines of its last runs, a heat map, and a timeline of simulated runs.

A sparkline has successful runs above its base line and failed ones below it. The heat map has the
median lateness by weekday and hour. The timeline has a line for each run: due, waiting, running.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from markupsafe import Markup

from duly.durations import about
from duly.policy.why import LocalClock
from duly.rehearse.story import Story, StoryMoment
from duly.views.fires import RunResult
from duly.views.schedule_detail import HourLateness
from duly.web.svg.drawing import Axis, framed, line, rectangle, text, titled

PLACES = 20  # of runs in a sparkline
BAR, STEP, UP, DOWN = 4, 6, 12, 7


class Mark(NamedTuple):
    word: RunResult
    title: str


def outcomes(marks: Sequence[Mark]) -> Markup:
    """Draw the last results, oldest first; if there are too few, the left stays empty."""
    shown = marks[-PLACES:]
    width, ground = PLACES * STEP, UP + 1
    first = PLACES - len(shown)
    parts = [line(0, ground, width, ground, kind="axis")]
    parts += [_bar((first + place) * STEP, ground, mark) for place, mark in enumerate(shown)]
    return framed(
        parts, width=width, height=UP + DOWN + 2, label=_told(shown), kind="sparkline outcomes"
    )


def durations(lengths: Sequence[timedelta], *, label: str) -> Markup:
    """Draw the durations of runs, oldest first; the longest has the full height."""
    height, step = 32, 8
    most = max(lengths, default=timedelta())
    parts = [line(0, height, len(lengths) * step, height, kind="axis")]
    for place, span in enumerate(lengths):
        tall = max(1.5, (height - 2) * (span / most)) if most else 1.5
        parts.append(
            rectangle(
                place * step, height - tall, width=step - 2, height=tall, kind="length",
                title=about(span),
            )
        )  # fmt: skip
    return framed(
        parts, width=max(len(lengths), 1) * step, height=height + 1, label=label, kind="sparkline"
    )


def _bar(x: float, ground: float, mark: Mark) -> Markup:
    kind = mark.word.replace(" ", "-")
    match mark.word:
        case "failed":
            return rectangle(x, ground, width=BAR, height=DOWN, kind=kind, title=mark.title)
        case "none":
            return rectangle(x, ground - 2, width=BAR, height=2, kind="passed", title=mark.title)
        case "in progress":
            return rectangle(x, ground - 6, width=BAR, height=6, kind=kind, title=mark.title)
        case "late":
            return rectangle(x, ground - 9, width=BAR, height=9, kind=kind, title=mark.title)
        case _:
            return rectangle(x, ground - UP, width=BAR, height=UP, kind=kind, title=mark.title)


def _told(marks: Sequence[Mark]) -> str:
    """Return a summary such as ``the last 20: 18 succeeded, 2 failed``."""
    if not marks:
        return "nothing was due yet"
    words = dict.fromkeys(("succeeded", "late", "in progress", "failed"), 0)
    for mark in marks:
        if mark.word in words:
            words[mark.word] += 1
    said = [f"{count} {word}" for word, count in words.items() if count]
    return f"the last {len(marks)}: {', '.join(said) or 'none of them counted'}"


DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LEFT, TOP, WIDE, HIGH = 34, 18, 36, 22
# A cell is one level darker from each of these values on.
STEPS: Final = tuple(timedelta(seconds=n) for n in (1, 10, 60, 600))


def heat_map(hours: Sequence[HourLateness]) -> Markup:
    parts = [
        text(LEFT + (hour + 0.5) * WIDE, TOP - 6, f"{hour:02}", anchor="middle")
        for hour in range(24)
    ]
    for day, name in enumerate(DAYS):
        parts.append(text(0, TOP + (day + 0.65) * HIGH, name))
        parts += [
            rectangle(
                LEFT + hour * WIDE, TOP + day * HIGH, width=WIDE - 2, height=HIGH - 2, kind="heat"
            )
            for hour in range(24)
        ]
    for one in hours:
        parts += _day_cell(one)
    return framed(
        parts,
        width=LEFT + 24 * WIDE,
        height=TOP + 7 * HIGH,
        label=_told_of_days(hours),
        kind="heat-map",
    )


def _day_cell(one: HourLateness) -> list[Markup]:
    x, y = LEFT + one.hour * WIDE, TOP + one.weekday * HIGH
    level = sum(one.lateness >= step for step in STEPS)
    title = (
        f"{DAYS[one.weekday]} {one.hour:02}:00–{one.hour:02}:59: usually {about(one.lateness)} "
        f"late, {one.runs} {'run' if one.runs == 1 else 'runs'}"
    )
    return [
        rectangle(x, y, width=WIDE - 2, height=HIGH - 2, kind=f"heat level-{level}", title=title),
        text(
            x + (WIDE - 2) / 2, y + HIGH * 0.65, _short_length(one.lateness),
            kind=f"on-{level}", anchor="middle",
        ),
    ]  # fmt: skip


def _short_length(span: timedelta) -> str:
    seconds = span.total_seconds()
    if seconds < 1:
        return "<1s"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _told_of_days(hours: Sequence[HourLateness]) -> str:
    if not hours:
        return "no run has begun yet"
    worst = max(hours, key=lambda one: one.lateness)
    return (
        f"Lateness by hour and weekday; the latest are {DAYS[worst.weekday]} at "
        f"{worst.hour:02}: {about(worst.lateness)}"
    )


LEFT, WIDTH, RIGHT = 100, 560, 150
TOP, HIGH = 22, 24
WORDS: Final = {
    "runs": "runs", "stopped": "is stopped", "failed": "fails", "waits": "waits",
    "expired": "is too late", "merged": "merged", "skipped": "skipped",
}  # fmt: skip


def policy_timeline(story: Story, *, zone: str, title: str) -> Markup:
    axis = Axis(start=story.what.start, end=story.what.end, left=LEFT, width=WIDTH)
    height = TOP + len(story.moments) * HIGH + 4
    clock = LocalClock(zone, story.what.start)
    parts = [*axis.drawn(zone, top=4, bottom=height)]
    parts += _outages(story, axis, clock, height)
    for place, moment in enumerate(story.moments):
        parts += _moment_row(moment, axis, clock, top=TOP + place * HIGH)
    return framed(
        parts, width=LEFT + WIDTH + RIGHT, height=height, kind="policy",
        label=f"{title}: {story.sentence}",
    )  # fmt: skip


def _outages(story: Story, axis: Axis, clock: LocalClock, height: float) -> Iterator[Markup]:
    for outage in story.what.outages:
        x, end = axis.x(outage.start), axis.x(outage.end)
        said = f"down {clock.near(outage.start)}–{clock.near(outage.end)}"
        yield rectangle(x, TOP - 6, width=end - x, height=height - TOP + 6, kind="down", title=said)
        yield text(x + 4, height - 6, "down", kind="down-word")


def _moment_row(
    moment: StoryMoment, axis: Axis, clock: LocalClock, *, top: float
) -> Iterator[Markup]:
    middle = top + HIGH / 2
    due = axis.x(moment.due_at)
    covered = axis.x(moment.covers_from)
    many = moment.count is None or moment.count > 1
    name = clock.near(moment.covers_from) + (" …" if many else "")
    yield text(0, middle + 4, name, kind="due")
    if moment.starts_at is not None and moment.starts_at > moment.due_at:
        yield line(due, middle, axis.x(moment.starts_at), middle, kind="waiting")
    for attempt in moment.attempts:
        x = axis.x(attempt.start)
        width = max(axis.x(min(attempt.end, axis.end)) - x, 2)
        kind = "late" if moment.is_late else "succeeded"
        said = f"{attempt.outcome} after {about(attempt.end - attempt.start)}"
        yield rectangle(x, top + 5, width=width, height=HIGH - 10, kind=kind, title=said, radius=2)
    if many:
        yield line(covered, middle, due, middle, kind="waiting")
    yield line(due, top + 3, due, top + HIGH - 3, kind="moment")
    word = text(LEFT + WIDTH + 10, middle + 4, _word(moment, clock), kind="word")
    yield Markup("<g>{}{}</g>").format(titled(moment.why), word)


def _word(moment: StoryMoment, clock: LocalClock) -> str:
    word = WORDS[moment.outcome]
    if moment.is_late and moment.starts_at is not None:
        return f"{word} at {clock.near(moment.starts_at.replace(microsecond=0), moment.due_at)}"
    return word
