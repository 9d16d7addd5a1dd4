"""Sparklines of the last runs: successful runs above the base line, failed ones below it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from markupsafe import Markup

from duly.policy.why import about
from duly.views.fires import RunResult
from duly.web.svg.drawing import framed, line, rectangle

BAR, STEP, UP, DOWN = 4, 6, 12, 7


class Mark(NamedTuple):
    word: RunResult
    title: str


def outcomes(marks: Sequence[Mark], *, places: int = 20) -> Markup:
    """Draw the last results, oldest first; if there are too few, the left stays empty."""
    shown = marks[-places:]
    width, ground = places * STEP, UP + 1
    first = places - len(shown)
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
