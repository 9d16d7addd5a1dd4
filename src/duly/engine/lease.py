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
        self._confirmed = sent

    def renewed(self, sent: float) -> None:
        self._confirmed = sent

    def lost(self) -> None:
        """The store says that it is over: what runs has to stop now."""
        self._confirmed = float("-inf")

    def next_renewal(self) -> float:
        return self._confirmed + self._seconds * _RENEW

    def is_doubtful(self, now: float) -> bool:
        """Whether jobs must be stopped, because the lease may be over soon."""
        return now >= self.doubtful_at()

    def doubtful_at(self) -> float:
        return self._confirmed + self._seconds * _STOP

    def last_moment(self) -> float:
        """When everything must have stopped."""
        return self._confirmed + self._seconds * _DIE
