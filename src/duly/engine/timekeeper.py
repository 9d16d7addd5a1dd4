"""Decide whether the database's clock can be trusted.

Every service decides by the database's clock. A clock that was wrongly set a year ahead for a
second would fire a year of moments and leave every cursor there, make ready what is due next month,
end every lease and delete what has to be kept. So each node holds the database's clock against a
clock of its own that nobody can set. The difference between the two is constant, but for a slow
drift. When it changes, the database's clock was set, and nobody can tell from here whether it is
right now or was right before: services wait until it has gone steadily for a while.

How long depends on what a mistake costs, so each service states its own ``Caution``:

* A scheduler that is wrong moves cursors into the future, and its schedules are silent for as long
  as the clock was ahead. It waits ten seconds, and after a jump ahead a sixtieth of the jump.
* A reaper that is wrong takes jobs from workers that live. A lease that was written before the
  jump is over, by the clock of its holder, one lease later: it waits for that, and then is right.
* What a pruner deletes does not come back. It has no hurry: it deletes only after it has watched
  the clock go steadily for ten minutes.

An answer takes its time. The database read its clock at some moment between question and answer, so
a read gives a range for the difference, and only what no two reads within their ranges explain is a
jump. A suspended machine is none: both clocks went on.

The timekeeper is a service itself, and looks every five seconds: whoever has had nothing to decide
for an hour would have nothing to compare with.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final, TypedDict, Unpack

from duly.clock import boottime
from duly.engine.lease import LEASE
from duly.events import ClockDistrusted, ClockTrusted, Emit, ignore_event
from duly.instants import EPOCH
from duly.store.store import Store
from duly.store.values import Trust

EVERY: Final = timedelta(seconds=5)
NO_REST: Final = timedelta(0)
# The rest of a service that the dispatcher wakes: it looks for all of them. Short enough that the
# clocks of node and database do not drift apart by a millisecond.
A_WHILE: Final = timedelta(seconds=10)
A_MINUTE: Final = timedelta(minutes=1)
DISTRUSTED: Final = timedelta(seconds=1)  # the rest while the clock is not trusted
# Rests of a service while another node holds what is overdue.
HELD_ELSEWHERE: Final = timedelta(milliseconds=5)
LONGEST_HELD: Final = timedelta(milliseconds=500)
# A shorter rest is none.
_SOON: Final = 0.1
# A smaller change of the difference is drift.
_DRIFT: Final = 0.05
# A jump of which somebody should know: some lease may end early because of it.
_NOTABLE: Final = 1.0
# What was before the last jump is forgotten after so many seconds: nobody waits longer.
_LONGEST: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """The conditions under which one service trusts the clock."""

    tolerance: timedelta = timedelta(seconds=60)  # a change up to this is no jump
    patience: timedelta = timedelta(seconds=10)  # it has gone steadily for so long since a jump
    # After a jump ahead a sixtieth of the jump is waited for, if that is longer, up to this.
    longest: timedelta = timedelta(minutes=10)
    watched: timedelta = timedelta(0)  # … and for so long since this node began to look

    def wait(self, jump: float) -> float:
        """Return how many seconds after a jump the clock is believed again."""
        shortest, longest = self.patience.total_seconds(), self.longest.total_seconds()
        return max(shortest, min(jump / 60, longest))

    @classmethod
    def about_leases(cls, length: timedelta) -> "Caution":
        """Return what is demanded before a lease of this length is believed to have expired.

        Its holder stops after nine tenths of it: a smaller change than the last tenth is harmless.
        What was written before a larger one is over, by any clock, when a lease has passed.
        """
        return cls(tolerance=length / 10, patience=length, longest=length)


ORDINARY: Final = Caution()
LEASES: Final = Caution.about_leases(LEASE)


class Timekeeper:
    """Compares the clocks for all services of a node. Threads may share it."""

    name = "timekeeper"
    topics: frozenset[str] = frozenset()

    def __init__(
        self, store: Store, *, emit: Emit = ignore_event, steady: Callable[[], float] = boottime
    ) -> None:
        self._store = store
        self._emit = emit
        self._steady = steady
        self._lock = threading.Lock()
        self.since: float | None = None  # on our own clock: the first read
        self._periods: deque[_Period] = deque()  # of one difference each, the current one last
        self._distrusts = False
        # The last large jump, and when it was, on our clock.
        self.jumped: tuple[float, float] | None = None

    async def tick(self) -> timedelta:
        looked = self._periods[-1].until if self._periods else float("-inf")
        left = looked + EVERY.total_seconds() - self._steady()
        if left > _SOON:  # another service has asked meanwhile
            return timedelta(seconds=left)
        judge = self.ask(ORDINARY)
        judge(await self._store.diagnostics.now())
        return EVERY

    def ask(self, caution: Caution) -> Trust:
        """Note that the database is about to be asked the time; the result judges its answer."""
        asked = self._steady()
        return lambda now: self._judge(caution, now, asked)

    def _judge(self, caution: Caution, now: datetime, asked: float) -> bool:
        told = (now - EPOCH).total_seconds()
        with self._lock:
            answered = self._steady()
            read = _Period(told - answered, told - asked, until=answered)
            jump = self._take(read)
            trusted = self._is_trusted(caution, read)
            if jump and abs(jump) > ORDINARY.tolerance.total_seconds():
                self._distrusts = True
                self.jumped = jump, answered
            returned = trusted and self._distrusts and caution == ORDINARY
            if returned:
                self._distrusts = False
        if jump:
            self._emit(ClockDistrusted(jump=timedelta(seconds=jump)))
        if returned:
            self._emit(ClockTrusted())
        return trusted

    def _take(self, read: "_Period") -> float:
        """Compare a read with the current period, and begin a new one if it does not fit.

        Return by how many seconds the clock has jumped; zero if it has not.
        """
        if not self._periods:
            self.since = read.until
            self._periods.append(read)
            return 0.0
        current = self._periods[-1]
        change = read.ahead_of(current)
        if abs(change) <= _DRIFT:
            if not change:
                current.narrow(read)
            current.until = read.until
            return 0.0
        current.until = read.until
        self._periods.append(read)
        while self._periods[0].until < read.until - _LONGEST:
            self._periods.popleft()
        return change if abs(change) > _NOTABLE else 0.0

    def _is_trusted(self, caution: Caution, read: "_Period") -> bool:
        tolerance = caution.tolerance.total_seconds()
        if read.high - read.low > tolerance:
            return False  # the answer took so long that a jump may hide in it
        if self.since is None or read.until - self.since < caution.watched.total_seconds():
            return False
        return not any(
            abs(jump) > tolerance and read.until - period.until < caution.wait(jump)
            for period in list(self._periods)[:-1]
            if (jump := read.ahead_of(period))
        )


class ServiceOptions(TypedDict, total=False):
    """The options of every service that decides by the database's clock."""

    emit: Emit
    batch: int | None
    timekeeper: Timekeeper | None
    steady: Callable[[], float]


class ClockedService:
    """A service on the store that decides by the database's clock."""

    batch: ClassVar[int]  # rows of one tick

    def __init__(self, store: Store, **options: Unpack[ServiceOptions]) -> None:
        self._store = store
        self._emit = options.get("emit", ignore_event)
        self._batch = options.get("batch") or self.batch
        self._steady = options.get("steady", boottime)
        self._timekeeper = options.get("timekeeper") or Timekeeper(
            store, emit=self._emit, steady=self._steady
        )
        self._held = HELD_ELSEWHERE

    def _held_elsewhere(self) -> timedelta:
        """Return the rest while another node holds overdue rows: short at first, then longer."""
        held, self._held = self._held, min(self._held * 2, LONGEST_HELD)
        return held


@dataclass(slots=True)
class _Period:
    """A range for the difference between the clocks, and until when it was true."""

    low: float
    high: float
    until: float  # on our own clock

    def ahead_of(self, other: "_Period") -> float:
        """Return by how much the difference has grown at least; below zero if it has shrunk."""
        return max(self.low - other.high, 0.0) or min(self.high - other.low, 0.0)

    def narrow(self, read: "_Period") -> None:
        self.low, self.high = max(self.low, read.low), min(self.high, read.high)
