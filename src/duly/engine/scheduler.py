"""The scheduler: fires due schedules and sleeps until the next moment or a nudge.

Any number of schedulers may run; there is no leader. A tick claims a batch of due schedules,
decides, and writes once. Schedules that one scheduler holds are skipped by the others. An idle
worker of the same process gets a fired job in that transaction, so that no worker has to wake up.
"""

from datetime import timedelta
from typing import ClassVar, Final, Unpack

from duly.engine.claim_planner import ClaimPlanner
from duly.engine.timekeeper import (
    A_WHILE,
    DISTRUSTED,
    HELD_ELSEWHERE,
    NO_REST,
    ORDINARY,
    ClockedService,
    ServiceOptions,
)
from duly.events import ScheduleFaulted, SchedulesFired
from duly.policy.firing import decide
from duly.store.ledger import FiringResult
from duly.store.store import Store
from duly.store.values import SCHEDULES, Offer

REFRESH_SECONDS: Final = 10.0  # between checks for moments that older zone data gave

# A scheduler that wakes for a moment and finds it fired by another one wakes a little later the
# next time, and later each time up to the limit; as soon as it finds a schedule that waited as long
# it is on time again. So several schedulers do not all ask at the same instant, and a death costs
# 20 ms, once.
STEP_BACK: Final = timedelta(milliseconds=5)
FARTHEST_BACK: Final = timedelta(milliseconds=20)


class Scheduler(ClockedService):
    name = "scheduler"
    topics: ClassVar[frozenset[str]] = frozenset({SCHEDULES})
    patient = True  # the dispatcher sees schedules that are overdue
    # Large enough to be fast, small enough that the schedules behind do not wait long and that a
    # crash repeats little.
    batch = 200

    def __init__(
        self,
        store: Store,
        *,
        planner: ClaimPlanner | None = None,
        **options: Unpack[ServiceOptions],
    ) -> None:
        """``planner`` is that of the worker in the same process."""
        super().__init__(store, **options)
        self._planner = planner
        self._stale_after: int | None = 0
        self._refresh_at = 0.0
        self._back = NO_REST
        self._due_at = float("inf")

    async def tick(self) -> timedelta:
        awaited = self._steady() >= self._due_at
        fired = await (self._planner.run_fired(self._fire) if self._planner else self._fire(None))
        if fired.schedules:
            self._emit(SchedulesFired(fires=fired.fires, jobs=fired.jobs, lateness=fired.lateness))
        for name, reason in fired.faults:
            self._emit(ScheduleFaulted(schedule=name, reason=reason))
        await self._refresh()
        if awaited and not fired.schedules:
            self._back = min(self._back + STEP_BACK, FARTHEST_BACK)
        elif fired.schedules and fired.lateness >= self._back:
            self._back = NO_REST
        rest = self._rest(fired)
        self._due_at = self._steady() + rest.total_seconds()
        return rest

    async def _fire(self, offer: Offer | None) -> FiringResult:
        trust = self._timekeeper.ask(ORDINARY)
        return await self._store.ledger.fire(decide, limit=self._batch, trust=trust, offer=offer)

    def _rest(self, fired: FiringResult) -> timedelta:
        if fired.distrusted:
            return DISTRUSTED
        if fired.rest is None:
            return A_WHILE
        if fired.rest > NO_REST or fired.schedules:
            self._held = HELD_ELSEWHERE
            if self._stale_after is not None:
                return NO_REST
            return min(fired.rest + self._back, A_WHILE) if fired.rest > NO_REST else NO_REST
        return self._held_elsewhere()

    async def _refresh(self) -> None:
        """Recompute one page of moments that were computed with older zone data.

        At the start and every ten seconds: a node with older data may write at any time.
        """
        if self._stale_after is None and self._steady() >= self._refresh_at:
            self._stale_after = 0
        if self._stale_after is not None:
            self._stale_after = await self._store.ledger.refresh(after=self._stale_after)
            self._refresh_at = self._steady() + REFRESH_SECONDS
