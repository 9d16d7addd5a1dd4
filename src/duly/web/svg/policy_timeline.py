"""Timeline of simulated runs, one line each: when a run is due, waits, and runs."""

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from duly.policy.why import LocalClock, about
from duly.rehearse import Story, StoryMoment
from duly.web.svg.drawing import Axis, framed, line, rectangle, text, titled

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
        parts += _row(moment, axis, clock, top=TOP + place * HIGH)
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


def _row(moment: StoryMoment, axis: Axis, clock: LocalClock, *, top: float) -> Iterator[Markup]:
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
