"""A pause that grows while children do not start, so that a broken import does not keep us busy."""

FIRST_PAUSE = 1.0  # seconds
LONGEST_PAUSE = 30.0


class StartBackoff:
    def __init__(self) -> None:
        self._next = FIRST_PAUSE
        self._until = 0.0

    def pause(self, now: float) -> float:
        """How long to wait. Who fails during a pause waits for its end, and does not prolong it."""
        if now >= self._until:
            self._until = now + self._next
            self._next = min(2 * self._next, LONGEST_PAUSE)
        return self._until - now

    def over(self) -> None:
        self._next = FIRST_PAUSE
