"""The lease: how long a worker may believe that its jobs are its own.

Each worker has one lease for all its jobs, and renews it every fifth of its length. If it is not
renewed, the store gives the jobs to other workers; a fencing token, which rises with every claim,
makes the store refuse whatever the old worker still writes.

A worker counts its lease from the moment it sent the renewal, on a clock that cannot be set and
that goes on while the machine is suspended. So the worker's view of it always ends before the
store's. After two thirds of the lease without a renewal it stops its jobs; at nine tenths, a worker
that could not stop them all must end its process.
"""

from datetime import timedelta
from typing import Final

LEASE: Final = timedelta(seconds=15)
SHORTEST: Final = timedelta(seconds=2)
LONGEST: Final = timedelta(minutes=10)
# How long a renewal may take. Shorter than the reaper's margin: a renewal that is decided just
# before the end of the lease and committed just after it must not find its jobs taken back.
PATIENCE: Final = timedelta(seconds=1.5)

_RENEW, _STOP, _DIE = 1 / 5, 2 / 3, 9 / 10


class Lease:
    """The lease of a worker as the worker sees it."""

    def __init__(self, length: timedelta, sent: float) -> None:
        self._seconds = length.total_seconds()
        self._sent = self._confirmed = sent
        self._stall: tuple[float, float] = (0.0, 0.0)

    def renewed(self, sent: float) -> None:
        self._sent = self._confirmed = sent
        self._stall = (0.0, 0.0)

    def stood_still(self, since: float, seconds: float) -> None:
        """Extend the lease by a time in which the store accepted no writes from anybody.

        The stall began at ``since``; it may be reported again, longer. One that began after the
        end of the lease does not count. The renewal is still due: until it is written, the row in
        the store says that the lease is over.
        """
        if since >= self.last_moment() and since != self._stall[0]:
            return
        before = self._stall[1] if self._stall[0] == since else 0.0
        self._confirmed += max(seconds - before, 0.0)
        self._stall = (since, max(seconds, before))

    def lost(self) -> None:
        """The store says that the lease is over: jobs must stop now."""
        self._confirmed = float("-inf")

    def next_renewal(self) -> float:
        return self._sent + self._seconds * _RENEW

    def is_doubtful(self, now: float) -> bool:
        """Return whether jobs must be stopped because the lease may end soon."""
        return now >= self.doubtful_at()

    def doubtful_at(self) -> float:
        return self._confirmed + self._seconds * _STOP

    def last_moment(self) -> float:
        """Return the time by which every job must have stopped."""
        return self._confirmed + self._seconds * _DIE
