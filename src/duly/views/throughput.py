"""How many jobs come into each queue in a minute and how many end, for somebody who looks on.

What has ended is in the charts. What has come is written nowhere by itself: it is what has ended,
and what the queue has grown by since somebody began to look.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from duly.instants import floored
from duly.store.protocol import MOST_COUNTED, Depth, Ended
from duly.views.charts import Charts

MINUTE = timedelta(minutes=1)
SHORTEST = timedelta(seconds=10)  # what is seen in less than this says little about a minute
APART = timedelta(seconds=1)  # of several who look at once, one is remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Jobs in a minute; None: not known yet, or too many to be counted."""

    came: float | None = None
    ended: float | None = None


class Flows:
    """Made once in a process, for one store: it remembers how full the queues were."""

    def __init__(self) -> None:
        self._looks: deque[tuple[datetime, Mapping[str, int | None]]] = deque()

    def look(self, depths: Iterable[Depth], charts: Charts, *, now: datetime) -> "dict[str, Flow]":
        """Of every queue in which something is, was, or has just ended."""
        sizes = {one.queue: _size(one) for one in depths}
        while self._looks and not timedelta() <= now - self._looks[0][0] <= MINUTE:
            self._looks.popleft()
        if not self._looks or now - self._looks[-1][0] >= APART:
            self._looks.append((now, sizes))
        ended = _ended(charts, now)
        return {
            name: Flow(
                came=self._came(name, sizes.get(name, 0), ended.get(name, 0.0), now=now),
                ended=ended.get(name, 0.0),
            )
            for name in {*sizes, *ended}
        }

    def _came(self, name: str, size: int | None, ended: float, *, now: datetime) -> float | None:
        first, sizes = self._looks[0]
        before = sizes.get(name, 0)
        if size is None or before is None or now - first < SHORTEST:
            return None
        return max(0.0, ended + (size - before) * (MINUTE / (now - first)))


def _size(depth: Depth) -> int | None:
    """How many are in it; None: some were not counted."""
    parts = (depth.ready, depth.scheduled, depth.blocked, depth.running)
    return sum(parts) if depth.whole and max(parts) <= MOST_COUNTED else None


def _ended(charts: Charts, now: datetime) -> dict[str, float]:
    """In the last sixty seconds: this minute, and as much of the one before as is left of it."""
    start = floored(now, MINUTE)
    found: dict[str, float] = {}
    for minute, share in ((start, 1.0), (start - MINUTE, 1.0 - (now - start) / MINUTE)):
        for name, one in charts.minute(minute).items():
            found[name] = found.get(name, 0.0) + _all(one) * share
    return found


def _all(one: Ended) -> int:
    return one.succeeded + one.failed + one.others
