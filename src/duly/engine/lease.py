"""How long a worker may believe that its jobs are its own.

A lease is counted from when its renewal was sent, on a clock that nobody can set and that goes on
while the machine sleeps: so what the worker believes always ends before what the store believes.
After two thirds it stops its jobs; at nine tenths, a worker that could not stop them all must not
go on existing.
"""

from datetime import timedelta
from typing import Final

LEASE: Final = timedelta(seconds=15)
# Shorter than the reaper's margin: a renewal that is judged just before the end of the lease and
# committed just after it must not find that somebody took the jobs back.
PATIENCE: Final = timedelta(seconds=1.5)

_RENEW, _STOP, _DIE = 1 / 5, 2 / 3, 9 / 10


class Lease:
    def __init__(self, length: timedelta, sent: float) -> None:
        self._seconds = length.total_seconds()
        self._sent = self._confirmed = sent
        self._stall: tuple[float, float] = (0.0, 0.0)

    def renewed(self, sent: float) -> None:
        self._sent = self._confirmed = sent
        self._stall = (0.0, 0.0)

    def stood_still(self, since: float, seconds: float) -> None:
        """Nobody could write for so long, in a time that began at ``since``: it does not count.

        The same time may be told again, grown longer. One that began after the lease is too late.
        The renewal is still due: until it is written, the store's row says that the lease is over.
        """
        if since >= self.last_moment() and since != self._stall[0]:
            return
        before = self._stall[1] if self._stall[0] == since else 0.0
        self._confirmed += max(seconds - before, 0.0)
        self._stall = (since, max(seconds, before))

    def lost(self) -> None:
        """The store says that it is over: what runs has to stop now."""
        self._confirmed = float("-inf")

    def next_renewal(self) -> float:
        return self._sent + self._seconds * _RENEW

    def is_doubtful(self, now: float) -> bool:
        """Whether jobs must be stopped, because the lease may be over soon."""
        return now >= self.doubtful_at()

    def doubtful_at(self) -> float:
        return self._confirmed + self._seconds * _STOP

    def last_moment(self) -> float:
        """When everything must have stopped."""
        return self._confirmed + self._seconds * _DIE
