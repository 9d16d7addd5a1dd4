"""Heat map of the median lateness of runs, by weekday and hour, with the value in each cell."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Protocol

from markupsafe import Markup

from duly.policy.why import about
from duly.web.svg.drawing import framed, rectangle, text

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LEFT, TOP, WIDE, HIGH = 34, 18, 36, 22
# A cell is one level darker from each of these values on.
STEPS: Final = tuple(timedelta(seconds=n) for n in (1, 10, 60, 600))


class HeatMapCell(Protocol):
    @property
    def weekday(self) -> int: ...
    @property
    def hour(self) -> int: ...
    @property
    def runs(self) -> int: ...
    @property
    def lateness(self) -> timedelta: ...


def heat_map(hours: Sequence[HeatMapCell]) -> Markup:
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
        parts += _cell(one)
    return framed(
        parts, width=LEFT + 24 * WIDE, height=TOP + 7 * HIGH, label=_told(hours), kind="heat-map"
    )


def _cell(one: HeatMapCell) -> list[Markup]:
    x, y = LEFT + one.hour * WIDE, TOP + one.weekday * HIGH
    level = sum(one.lateness >= step for step in STEPS)
    title = (
        f"{DAYS[one.weekday]} {one.hour:02}:00–{one.hour:02}:59: usually {about(one.lateness)} "
        f"late, {one.runs} {'run' if one.runs == 1 else 'runs'}"
    )
    return [
        rectangle(x, y, width=WIDE - 2, height=HIGH - 2, kind=f"heat level-{level}", title=title),
        text(
            x + (WIDE - 2) / 2, y + HIGH * 0.65, _short(one.lateness),
            kind=f"on-{level}", anchor="middle",
        ),
    ]  # fmt: skip


def _short(span: timedelta) -> str:
    seconds = span.total_seconds()
    if seconds < 1:
        return "<1s"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _told(hours: Sequence[HeatMapCell]) -> str:
    if not hours:
        return "no run has begun yet"
    worst = max(hours, key=lambda one: one.lateness)
    return (
        f"Lateness by hour and weekday; the latest are {DAYS[worst.weekday]} at "
        f"{worst.hour:02}: {about(worst.lateness)}"
    )
