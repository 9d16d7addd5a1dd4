"""The dispatcher: makes jobs ready when they are due, and deals with those that are late.

When workers come it sets those jobs free that waited for somebody like them, a batch at a time, so
that due jobs are not kept waiting by them.

Once a minute it also looks for what was left behind: a job that waits for nothing, a fixed delay
that awaits no job. Nothing should be there; a net that is never needed is still a net.
"""

from collections.abc import Callable
from datetime import timedelta

from duly.clock import boottime
from duly.engine.timekeeper import LEASES, ORDINARY, Timekeeper
from duly.events import Emit, JobsExpired, JobsReadied, ignore_event
from duly.store.store import Store
from duly.store.values import JOBS, WORKERS

BATCH = 1_000
A_MINUTE = timedelta(minutes=1)
# How often it is asked whether somebody lives for whom jobs wait, if nobody says that one came.
FITTING_SECONDS = 2.0
NO_REST = timedelta(0)
# Overdue and not ours: somebody holds it, perhaps for long. Look again soon, then less soon.
HELD_ELSEWHERE = timedelta(milliseconds=5)
LONGEST_HELD = timedelta(milliseconds=500)
# While the clock is not believed.
DISTRUSTED = timedelta(seconds=1)


class Dispatcher:
    name = "dispatcher"
    topics = frozenset({JOBS, WORKERS})

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
        self._timekeeper = timekeeper or Timekeeper(store, emit=emit, steady=steady)
        self._steady = steady
        self._swept = steady()
        self._held = HELD_ELSEWHERE
        self._fitted = float("-inf")
        store.listen(self.hear)

    def hear(self, topic: str) -> None:
        if topic == WORKERS:
            self._fitted = float("-inf")

    async def tick(self) -> timedelta:
        trust = self._timekeeper.ask(ORDINARY)
        done = await self._store.upkeep.dispatch(limit=self._batch, trust=trust)
        if done.ready or done.hurried:
            self._emit(JobsReadied(count=done.ready + done.hurried))
        if done.expired:
            self._emit(JobsExpired(count=done.expired))
        if self._steady() - self._swept >= A_MINUTE.total_seconds():
            await self._store.upkeep.sweep(limit=self._batch)
            await self._store.upkeep.hold_unknown(
                patience=A_MINUTE, limit=self._batch, trust=self._timekeeper.ask(LEASES)
            )
            self._swept = self._steady()
        if await self._free_unfit():
            return NO_REST
        if done.distrusted:
            return DISTRUSTED
        if done.rest is None:
            return A_MINUTE
        if done.rest > NO_REST or done.ready or done.hurried or done.expired:
            self._held = HELD_ELSEWHERE
            return max(done.rest, NO_REST)
        held, self._held = self._held, min(self._held * 2, LONGEST_HELD)
        return held

    async def _free_unfit(self) -> bool:
        """Set free who waits for somebody who lives now: whether there may be more of them."""
        before, now = self._fitted, self._steady()
        if now - before < FITTING_SECONDS:
            return False
        self._fitted = now  # who comes from now on may not be seen
        try:
            freed = await self._store.upkeep.free_unfit(limit=self._batch)
        except BaseException:
            self._fitted = before
            raise
        if freed:
            self._emit(JobsReadied(count=freed))
        if freed < self._batch:
            return False
        self._fitted = float("-inf")
        return True
