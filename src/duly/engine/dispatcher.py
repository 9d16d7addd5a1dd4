"""The dispatcher: makes jobs ready when they are due, and deals with those that are late.

Once a minute it also looks for what was left behind: a job that waits for nothing, a fixed delay
that awaits no job. Nothing should be there; a net that is never needed is still a net.
"""

from collections.abc import Callable
from datetime import timedelta

from duly.clock import boottime
from duly.events import Emit, JobsExpired, JobsReadied, nobody
from duly.store.protocol import JOBS, Store

BATCH = 1_000
A_MINUTE = timedelta(minutes=1)
NO_REST = timedelta(0)
# Overdue and not ours: somebody holds it, perhaps for long. Look again soon, then less soon.
HELD_ELSEWHERE = timedelta(milliseconds=5)
LONGEST_HELD = timedelta(milliseconds=500)


class Dispatcher:
    name = "dispatcher"
    topics = frozenset({JOBS})

    def __init__(
        self,
        store: Store,
        *,
        emit: Emit = nobody,
        batch: int = BATCH,
        steady: Callable[[], float] = boottime,
    ) -> None:
        self._store = store
        self._emit = emit
        self._batch = batch
        self._steady = steady
        self._swept = steady()
        self._held = HELD_ELSEWHERE

    async def tick(self) -> timedelta:
        done = await self._store.upkeep.dispatch(limit=self._batch)
        if done.ready or done.hurried:
            self._emit(JobsReadied(count=done.ready + done.hurried))
        if done.expired:
            self._emit(JobsExpired(count=done.expired))
        if self._steady() - self._swept >= A_MINUTE.total_seconds():
            await self._store.upkeep.sweep(limit=self._batch)
            await self._store.upkeep.hold_unknown(patience=A_MINUTE, limit=self._batch)
            self._swept = self._steady()
        if done.rest is None:
            return A_MINUTE
        if done.rest > NO_REST or done.ready or done.hurried or done.expired:
            self._held = HELD_ELSEWHERE
            return max(done.rest, NO_REST)
        held, self._held = self._held, min(self._held * 2, LONGEST_HELD)
        return held
