"""Whether the database's clock may be believed.

Firing moves every schedule's cursor up to the database's now. A clock that was wrongly set years
ahead for a second would leave all cursors there, and after its correction nothing would fire for
years. So each node holds the database's clock against a clock of its own that nobody can set: when
the two moved by very different amounts between two reads, the node stops firing until they have
gone alike for a while. A slow drift is no jump, and neither is a suspended machine, whose two
clocks both went on.

Reading clocks is left to the caller, who reads his own when the database's answer arrives.
"""

from datetime import datetime, timedelta
from typing import NamedTuple


class Timekeeper:
    """Compares each read of the database's clock with the one before."""

    def __init__(
        self,
        *,
        tolerance: timedelta = timedelta(seconds=60),
        reads: int = 3,
        over: timedelta = timedelta(seconds=10),
    ) -> None:
        self._tolerance = tolerance
        self._reads = reads
        self._over = over.total_seconds()
        self._last: _Read | None = None
        # Since the latest jump, or none was seen: the first of the reads that agree, and how many.
        self._agreeing_since = 0.0
        self._agreeing = 0
        self.trusted = True
        self.jump = timedelta()

    def trusts(self, database_now: datetime, own: float) -> bool:
        """Take one read of both clocks: whether the database's may be believed now.

        ``own`` is ``duly.clock.boottime()``, or any steady count of seconds. After a refusal,
        ``jump`` says by how much the database's clock had moved too far, or too little.
        """
        last, self._last = self._last, _Read(database_now, own)
        if last is not None:
            self._compare(last, self._last)
        return self.trusted

    def _compare(self, last: "_Read", read: "_Read") -> None:
        difference = (read.database - last.database) - timedelta(seconds=read.own - last.own)
        if abs(difference) > self._tolerance:
            self.trusted = False
            self.jump = difference
            self._agreeing_since, self._agreeing = read.own, 1
        elif not self.trusted:
            self._agreeing += 1
            long_enough = read.own - self._agreeing_since >= self._over
            self.trusted = long_enough and self._agreeing >= self._reads


class _Read(NamedTuple):
    database: datetime
    own: float
