"""How fast a worker is, and so how much it claims ahead."""

from collections.abc import Callable

AHEAD_SECONDS = 0.1
_MEMORY = 8  # of how many attempts the length is remembered, about


class Pace:
    """How many jobs a second have ended lately."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._since = time()
        self._before = 0
        self._rate = 0.0
        self._length = 0.0

    def took(self, seconds: float) -> None:
        """An attempt has ended, so long after it began."""
        self._length += (seconds - self._length) / _MEMORY

    def ahead(self, ended: int, slots: int) -> int:
        """How many jobs there will be room for in a moment.

        Long jobs that began together end together, and that looks like a flood of short ones. But
        slots never let more through than their number by the length of a job.
        """
        rate = self.rate(ended)
        if self._length > 0:
            rate = min(rate, slots / self._length)
        return int(rate * AHEAD_SECONDS)

    def rate(self, ended: int) -> float:
        passed = self._time() - self._since
        if passed >= AHEAD_SECONDS:
            # Half of what was: a worker that turns to long jobs forgets the short ones in no time.
            self._rate = (self._rate + (ended - self._before) / passed) / 2
            self._since, self._before = self._time(), ended
        # What has ended in this moment already shows that a flood has begun, before it is over.
        return max(self._rate, (ended - self._before) / AHEAD_SECONDS)
