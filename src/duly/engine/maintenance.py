"""The services that keep the store going: dispatcher, reactor, reaper, pruner and meter.

The dispatcher, the reactor and the reaper run on every node; the pruner and the meter run beside a
scheduler. Any number of each may run at once.
"""

from datetime import datetime, timedelta
from typing import ClassVar, Final, Unpack

from duly.engine.timekeeper import (
    A_MINUTE,
    A_WHILE,
    DISTRUSTED,
    HELD_ELSEWHERE,
    LEASES,
    NO_REST,
    ORDINARY,
    Caution,
    ClockedService,
    ServiceOptions,
)
from duly.errors import DulyError
from duly.events import EventsHandled, JobsExpired, JobsReadied, JobsTakenBack, Pruned
from duly.model.outcome import Lost, Returned
from duly.policy.verdict import Tried, Verdict, judge
from duly.store.maintenance import Retention
from duly.store.store import Store
from duly.store.values import EVENTS, JOBS, LOST, WORKERS, LostJob

# How often jobs that wait for a worker are checked if no worker has registered.
FITTING_SECONDS: Final = 2.0
# A renewal may be decided just before the expiry and committed just after it. It must not take
# longer than this; the worker that sends it makes sure of that (lease.PATIENCE).
MARGIN: Final = timedelta(seconds=2)
PRUNE_EVERY: Final = timedelta(minutes=5)
COUNT_EVERY: Final = timedelta(seconds=5)
# Deleted rows do not come back, and deleting is never urgent.
DELETING: Final = Caution(patience=timedelta(minutes=10), watched=timedelta(minutes=10))


class Dispatcher(ClockedService):
    """Makes due jobs ready and expires late ones.

    When workers register, it unblocks jobs that waited for such a worker, a batch at a time, so
    that due jobs do not wait for them.

    It polls for the other services too: its one statement tells whether a schedule is overdue, an
    event waits or a lease has expired, and it wakes the service that has to act.

    Once a minute it also repairs rows that were left behind: a job that waits for nothing, a fixed
    delay that awaits no job. There should be none; this is a safety net.
    """

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


class Reactor(ClockedService):
    """Starts the jobs that events trigger, and continues flows that wait for events.

    One reactor works at a time. It is woken when an event is emitted.
    """

    name = "reactor"
    topics: ClassVar[frozenset[str]] = frozenset({EVENTS})
    patient = True  # the dispatcher sees events that wait
    batch = 200

    async def tick(self) -> timedelta:
        try:
            trust = self._timekeeper.ask(ORDINARY)
            done = await self._store.events.react(limit=self._batch, trust=trust)
        except DulyError:  # flows may be able to continue nevertheless
            await self._answer()
            raise
        if done.events:
            self._emit(EventsHandled(events=done.events, jobs=done.jobs, withdrawn=done.withdrawn))
        answered = await self._answer()
        return NO_REST if done.more or answered == self._batch else A_WHILE

    async def _answer(self) -> int:
        return await self._store.maintenance.answer(limit=self._batch)


class Reaper(ClockedService):
    """Takes jobs back from workers whose lease has expired.

    A long runtime is no reason: only the lease decides, by the store's clock. A worker that returns
    later with a result holds an old fencing token, and the store refuses it.

    A clock that was set forward expires every lease in the store, but not for the workers that hold
    them. So the reaper asks the timekeeper; until the clock is trusted again it takes back only the
    jobs of workers that ended their lease or are known to be dead.
    """

    name = "reaper"
    batch = 500
    patient = True
    # A lease was ended for a worker that is dead, or the dispatcher sees that one has expired.
    topics: ClassVar[frozenset[str]] = frozenset({WORKERS, LOST})

    def __init__(
        self,
        store: Store,
        *,
        margin: timedelta = MARGIN,
        caution: Caution = LEASES,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(store, **options)
        self._margin = margin
        self._caution = caution
        self._after = 0

    async def tick(self) -> timedelta:
        taken = await self._store.maintenance.take_back(
            judged,
            after=self._after,
            margin=self._margin,
            limit=self._batch,
            trust=self._timekeeper.ask(self._caution),
        )
        self._after = taken.last
        if taken.lost:
            self._emit(JobsTakenBack(count=taken.lost, poisoned=taken.poisoned))
        if taken.last:
            return NO_REST
        return DISTRUSTED if taken.distrusted else A_WHILE


def judged(job: LostJob, now: datetime) -> Verdict:
    """Decide about a job that was lost with its worker; it is retried at once, without jitter."""
    reason = "it has ended" if job.has_ended else "its lease ended"
    if not job.has_begun:
        unbegun = Returned(f"lost with {job.worker_name or 'its worker'} before it began: {reason}")
        return judge(Tried.of(job), unbegun, now, dice=0.0)
    lost = Lost(worker=job.worker, reason=reason, alone=job.alone, name=job.worker_name)
    return judge(Tried.of(job), lost, now, dice=0.0)


class Pruner(ClockedService):
    """Deletes history older than its retention, and prepares the partitions of coming days."""

    name = "pruner"
    batch = 5_000
    topics: frozenset[str] = frozenset()

    def __init__(
        self,
        store: Store,
        *,
        retention: Retention | None = None,
        caution: Caution = DELETING,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(store, **options)
        self._retention = retention or Retention()
        self._caution = caution

    async def tick(self) -> timedelta:
        await self._store.maintenance.make_days(trust=self._timekeeper.ask(ORDINARY))
        gone = await self._store.maintenance.prune(
            self._retention, limit=self._batch, trust=self._timekeeper.ask(self._caution)
        )
        if gone:
            self._emit(Pruned(rows=gone))
        return NO_REST if gone >= self._batch else PRUNE_EVERY


class Meter(ClockedService):
    """Adds ended jobs and decided fires to counters that outlive the history.

    Jobs pay nothing for it: it reads the rows that they leave behind, a few seconds later. The
    first meter to write a stretch counts it.
    """

    name = "meter"
    batch = 0  # a stretch is bounded by time
    topics: frozenset[str] = frozenset()

    async def tick(self) -> timedelta:
        more = await self._store.maintenance.count(trust=self._timekeeper.ask(ORDINARY))
        return NO_REST if more else COUNT_EVERY
