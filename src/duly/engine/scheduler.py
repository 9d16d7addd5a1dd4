"""The scheduler: fires what is due, and sleeps until the next moment or a nudge.

Any number of them may run, with no leader. A tick claims a batch of due schedules, decides, and
writes once; what one of them holds the others skip.
"""

from collections.abc import Callable
from datetime import timedelta

from duly.clock import boottime
from duly.engine.timekeeper import ORDINARY, Timekeeper
from duly.events import Emit, ScheduleFaulted, SchedulesFired, ignore_event
from duly.policy.firing import decide
from duly.store.store import Store
from duly.store.values import SCHEDULES
from duly.store.values import FiringResult as Pass

# So many schedules in one transaction: large enough to be fast, small enough that the rows behind
# do not wait long, and that a crash repeats little.
BATCH = 200
A_MINUTE = timedelta(minutes=1)
REFRESH_SECONDS = 10.0  # between looks for moments that older zone data gave
NO_REST = timedelta(0)
# Overdue and not ours: another node holds it, or is the one with the right zone data. Look again
# soon, then less and less soon.
HELD_ELSEWHERE = timedelta(milliseconds=5)
LONGEST_HELD = timedelta(milliseconds=500)


# A scheduler that wakes for a moment and finds it fired by another stands back a little the next
# time, and a little more each time, up to this; when it finds something to do, it steps forward
# again. So several do not all ask at the same instant, and a death costs this much, once.
STEP_BACK = timedelta(milliseconds=5)
FARTHEST_BACK = timedelta(milliseconds=20)


class Scheduler:
    name = "scheduler"
    topics = frozenset({SCHEDULES})

    def __init__(
        self,
        store: Store,
        *,
        emit: Emit = ignore_event,
        batch: int = BATCH,
        timekeeper: Timekeeper | None = None,
        steady: Callable[[], float] = boottime,
    ) -> None:
        self._store = store
        self._emit = emit
        self._batch = batch
        self._steady = steady
        self._timekeeper = timekeeper or Timekeeper(store, emit=emit, steady=steady)
        self._stale_after: int | None = 0
        self._refresh_at = 0.0
        self._held = HELD_ELSEWHERE
        self._back = NO_REST
        self._due_at = float("inf")

    async def tick(self) -> timedelta:
        awaited = self._steady() >= self._due_at
        trust = self._timekeeper.ask(ORDINARY)
        fired = await self._store.ledger.fire(decide, limit=self._batch, trust=trust)
        if fired.schedules:
            self._emit(SchedulesFired(fires=fired.fires, jobs=fired.jobs, lateness=fired.lateness))
        for name, reason in fired.faults:
            self._emit(ScheduleFaulted(name=name, reason=reason))
        await self._refresh()
        if fired.schedules:
            self._back = NO_REST
        elif awaited:
            self._back = min(self._back + STEP_BACK, FARTHEST_BACK)
        rest = self._rest(fired)
        self._due_at = self._steady() + rest.total_seconds()
        return rest

    def _rest(self, fired: Pass) -> timedelta:
        if fired.distrusted:
            return timedelta(seconds=1)
        if fired.rest is None:
            return A_MINUTE
        if fired.rest > NO_REST or fired.schedules:
            self._held = HELD_ELSEWHERE
            if self._stale_after is not None:
                return NO_REST
            return fired.rest + self._back if fired.rest > NO_REST else NO_REST
        held, self._held = self._held, min(self._held * 2, LONGEST_HELD)
        return held

    async def _refresh(self) -> None:
        """Work out anew what older zone data gave, a page at each tick.

        After the start, and again and again: a node with older data may write at any time.
        """
        if self._stale_after is None and self._steady() >= self._refresh_at:
            self._stale_after = 0
        if self._stale_after is not None:
            self._stale_after = await self._store.ledger.refresh(after=self._stale_after)
            self._refresh_at = self._steady() + REFRESH_SECONDS
