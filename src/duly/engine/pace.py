"""How fast a worker is, and so how much it claims ahead."""

from collections.abc import Callable

AHEAD_SECONDS = 0.05


class Pace:
    """How many jobs a second have ended lately."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._since = time()
        self._before = 0
        self._rate = 0.0

    def rate(self, ended: int) -> float:
        passed = self._time() - self._since
        if passed >= AHEAD_SECONDS:
            # Half of what was: a worker that turns to long jobs forgets the short ones in no time.
            self._rate = (self._rate + (ended - self._before) / passed) / 2
            self._since, self._before = self._time(), ended
        return self._rate
