"""How many jobs come into each queue in a minute and how many end, for somebody who looks on.

What has ended is in the charts. What has come is written nowhere by itself: it is what has ended,
and what the queue has grown by since somebody began to look.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from duly.app.charts import Charts
from duly.instants import EPOCH
from duly.store.protocol import MOST_COUNTED, Depth, Ended

MINUTE = timedelta(minutes=1)
SHORTEST = timedelta(seconds=10)  # what is seen in less than this says little about a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Jobs in a minute; None: not known yet, or too many to be counted."""

    came: float | None = None
    ended: float | None = None


class Flows:
    """Made once in a process, for one store: it remembers how full the queues were."""

    def __init__(self) -> None:
        self._looks: deque[tuple[datetime, Mapping[str, int]]] = deque()

    def look(self, depths: Iterable[Depth], charts: Charts, *, now: datetime) -> "dict[str, Flow]":
        """Of every queue in which something is, was, or has just ended."""
        depths = list(depths)
        sizes = {one.queue: _size(one) for one in depths}
        while self._looks and not timedelta() <= now - self._looks[0][0] <= MINUTE:
            self._looks.popleft()
        self._looks.append((now, {name: size for name, size in sizes.items() if size is not None}))
        ended = _ended(charts, now)
        too_many = {name for name, size in sizes.items() if size is None}
        return {
            name: Flow(
                came=None if name in too_many else self._came(name, ended.get(name, 0.0)),
                ended=ended.get(name, 0.0),
            )
            for name in {*sizes, *ended}
        }

    def _came(self, name: str, ended: float) -> float | None:
        (first, before), (last, after) = self._looks[0], self._looks[-1]
        if last - first < SHORTEST:
            return None
        grown = after.get(name, 0) - before.get(name, 0)
        return max(0.0, ended + grown * (MINUTE / (last - first)))


def _size(depth: Depth) -> int | None:
    """How many are in it; None: some were not counted."""
    parts = (depth.ready, depth.scheduled, depth.blocked, depth.running)
    return sum(parts) if depth.whole and max(parts) <= MOST_COUNTED else None


def _ended(charts: Charts, now: datetime) -> dict[str, float]:
    """In the last sixty seconds: this minute, and as much of the one before as is left of it."""
    start = now - (now - EPOCH) % MINUTE
    found: dict[str, float] = {}
    for minute, share in ((start, 1.0), (start - MINUTE, 1.0 - (now - start) / MINUTE)):
        for name, one in charts.minute(minute).items():
            found[name] = found.get(name, 0.0) + _all(one) * share
    return found


def _all(one: Ended) -> int:
    return one.succeeded + one.failed + one.others
