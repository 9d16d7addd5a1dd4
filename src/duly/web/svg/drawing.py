"""Parts of every chart: the SVG frame, basic shapes, and a time axis with round ticks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from duly.rules import local_time

_SECOND, _MINUTE, _HOUR, _DAY = (timedelta(seconds=n) for n in (1, 60, 3_600, 86_400))
_STEPS: Final = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 182, 364)),
)


def framed(
    parts: Iterable[Markup],
    *,
    width: float,
    height: float,
    label: str,
    kind: str = "",
    links: bool = False,
) -> Markup:
    """Return the SVG element. With links its role is group, because an image has no children."""
    return Markup(
        '<svg class="{}" viewBox="0 0 {} {}" width="{}" height="{}" role="{}" aria-label="{}">{}'
        "</svg>"
    ).format(
        kind, number(width), number(height), number(width), number(height),
        "group" if links else "img", label, Markup("").join(parts),
    )  # fmt: skip


def rectangle(
    x: float,
    y: float,
    *,
    width: float,
    height: float,
    kind: str,
    title: str = "",
    radius: float = 0,
) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="{}" class="{}">{}</rect>').format(
        number(x), number(y), number(width), number(height), number(radius), kind, titled(title)
    )


def line(x1: float, y1: float, x2: float, y2: float, *, kind: str) -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(
        number(x1), number(y1), number(x2), number(y2), kind
    )


def text(x: float, y: float, words: str, *, kind: str = "", anchor: str = "start") -> Markup:
    return Markup('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        number(x), number(y), kind, anchor, words
    )


def titled(words: str) -> Markup:
    return Markup("<title>{}</title>").format(words) if words else Markup("")


def number(value: float) -> str:
    """Format a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A horizontal time axis from ``start`` to ``end``."""

    start: datetime
    end: datetime
    left: float
    width: float

    def x(self, moment: datetime) -> float:
        part = (moment - self.start) / (self.end - self.start)
        return self.left + self.width * min(max(part, 0.0), 1.0)

    def ticks(self, zone: str, *, apart: float = 90) -> Iterator[tuple[float, str]]:
        """Yield x and label of round local times, about ``apart`` units or more from each other."""
        least = (self.end - self.start) * min(apart / self.width, 1.0)
        step = next((one for one in _STEPS if one >= least), _STEPS[-1])
        local = local_time(self.start, zone)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        moment = self.start + (-((local - midnight) % step) % step)
        while moment < self.end:
            yield self.x(moment), _told(local_time(moment, zone), step)
            moment += step

    def drawn(
        self, zone: str, *, top: float, bottom: float, bare: tuple[float, float] = (0, 0)
    ) -> Iterator[Markup]:
        """Yield the tick lines and their labels; no labels between the two x of ``bare``."""
        for x, words in self.ticks(zone):
            yield line(x, top, x, bottom, kind="axis")
            if not bare[0] < x < bare[1]:
                yield text(x + 3, top + 9, words)


def _told(local: datetime, step: timedelta) -> str:
    if step >= _DAY or not (local.hour or local.minute or local.second):
        return f"{local:%a %d %b}"
    return f"{local:%H:%M:%S}" if step < _MINUTE else f"{local:%H:%M}"
