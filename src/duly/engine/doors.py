"""Queues that let nobody in for a while, because of limits of their own.

Looking there again and again would cost a lock each time, and looking half a second later would
leave a slow queue idle. So each has a moment at which it is worth another look: when its rate lets
the next one through, or when one of its jobs has ended here. What ends elsewhere is heard of by a
nudge.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta

# If no nudge comes, look all the same.
LOOK_SECONDS = 0.4
# A rest that is rounded to nothing is none.
SOONEST = timedelta(milliseconds=1)


class Doors:
    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._until: dict[str, float] = {}
        self._full: set[str] = set()  # those of them in which as many run as may

    def shut(self, queue: str, opens_in: timedelta | None) -> None:
        seconds = LOOK_SECONDS if opens_in is None else opens_in.total_seconds()
        self._until[queue] = self._time() + seconds
        if opens_in is None:
            self._full.add(queue)

    def open(self, queue: str) -> None:
        self._until.pop(queue, None)
        self._full.discard(queue)

    def ended(self, queues: Iterable[str]) -> None:
        """Jobs of these queues have ended."""
        for queue in self._full.intersection(queues):
            self.open(queue)

    def shut_now(self) -> set[str]:
        now = self._time()
        for queue in [queue for queue, until in self._until.items() if until <= now]:
            self.open(queue)
        return set(self._until)

    def next_look(self) -> timedelta | None:
        """How long until the first of them is worth another look."""
        # Not those whose moment has passed: whoever is too busy to look would not rest at all.
        if not self.shut_now():
            return None
        return max(SOONEST, timedelta(seconds=min(self._until.values()) - self._time()))
