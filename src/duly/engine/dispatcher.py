"""The dispatcher: makes due jobs ready and expires late ones.

When workers register, it unblocks jobs that waited for such a worker, a batch at a time, so that
due jobs do not wait for them.

It polls for the other services too: its one statement tells whether a schedule is overdue, an event
waits or a lease has expired, and it wakes the service that has to do with it.

Once a minute it also looks for rows that were left behind: a job that waits for nothing, a fixed
delay that awaits no job. There should be none; this is a safety net.
"""

from datetime import timedelta
from typing import ClassVar, Final, Unpack

from duly.engine.timekeeper import (
    A_MINUTE,
    HELD_ELSEWHERE,
    LEASES,
    NO_REST,
    ORDINARY,
    ClockedService,
    ServiceOptions,
)
from duly.events import JobsExpired, JobsReadied
from duly.store.store import Store
from duly.store.values import JOBS, WORKERS

# How often jobs that wait for a worker are checked if no worker has registered.
FITTING_SECONDS: Final = 2.0
DISTRUSTED: Final = timedelta(seconds=1)  # the rest while the clock is not trusted


class Dispatcher(ClockedService):
    name = "dispatcher"
    topics: ClassVar[frozenset[str]] = frozenset({JOBS, WORKERS})
    batch = 1_000

    def __init__(self, store: Store, **options: Unpack[ServiceOptions]) -> None:
        super().__init__(store, **options)
        self._swept = self._steady()
        self._fitted = float("-inf")
        store.listen(self.hear)

    def hear(self, topic: str) -> None:
        if topic == WORKERS:
            self._fitted = float("-inf")

    async def tick(self) -> timedelta:
        trust = self._timekeeper.ask(ORDINARY)
        done = await self._store.maintenance.dispatch(limit=self._batch, trust=trust)
        if done.ready or done.hurried:
            self._emit(JobsReadied(count=done.ready + done.hurried))
        if done.expired:
            self._emit(JobsExpired(count=done.expired))
        await self._sweep()
        if await self._free_unfit(some=done.unfit):
            return NO_REST
        if done.distrusted:
            return DISTRUSTED
        if done.rest is None:
            return A_MINUTE
        if done.rest > NO_REST or done.ready or done.hurried or done.expired:
            self._held = HELD_ELSEWHERE
            return max(done.rest, NO_REST)
        return self._held_elsewhere()

    async def _sweep(self) -> None:
        """Once a minute, repair rows that were left behind and block jobs of unknown tasks."""
        if self._steady() - self._swept < A_MINUTE.total_seconds():
            return
        await self._store.maintenance.sweep(limit=self._batch)
        await self._store.maintenance.hold_unknown(
            patience=A_MINUTE, limit=self._batch, trust=self._timekeeper.ask(LEASES)
        )
        self._swept = self._steady()

    async def _free_unfit(self, *, some: bool) -> bool:
        """Unblock jobs whose required worker is alive; return whether there may be more."""
        before, now = self._fitted, self._steady()
        if now - before < FITTING_SECONDS:
            return False
        self._fitted = now  # a worker that registers from now on may be missed by this check
        if not some:
            return False
        try:
            freed = await self._store.maintenance.free_unfit(limit=self._batch)
        except BaseException:
            self._fitted = before
            raise
        if freed:
            self._emit(JobsReadied(count=freed))
        if freed < self._batch:
            return False
        self._fitted = float("-inf")
        return True
