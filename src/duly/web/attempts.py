"""From where a wrong token was typed into the sign-in form too often: such addresses have to wait.

Nobody guesses a token of 32 random bytes; but whoever tries costs work, and should be noticed. What
programs show in a header is not counted: one with an old token would lock out the people beside it.
"""

from collections import OrderedDict, deque

from duly.clock import boottime

MOST_ATTEMPTS = 10
WINDOW_SECONDS = 300.0
MOST_ADDRESSES = 10_000


class Attempts:
    def __init__(self) -> None:
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def note(self, address: str) -> None:
        """A wrong secret came from there."""
        times = self._failed.setdefault(address, deque(maxlen=MOST_ATTEMPTS))
        times.append(boottime())
        self._failed.move_to_end(address)
        while len(self._failed) > MOST_ADDRESSES:
            self._failed.popitem(last=False)

    def wait(self, address: str) -> int:
        """For how many seconds wrong tokens from there are turned away; 0: none."""
        times = self._failed.get(address)
        if times is None or len(times) < MOST_ATTEMPTS:
            return 0
        return max(0, int(times[0] + WINDOW_SECONDS - boottime()) + 1)
