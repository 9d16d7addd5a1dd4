"""Upkeep: what the dispatcher, the reaper, the pruner and their like do."""

from datetime import timedelta
from functools import partial

from duly.store import limits, settling, upkeep
from duly.store.database import Ask, Operation, Start
from duly.store.rows import JobEnding
from duly.store.transactions import ready_in
from duly.store.values import (
    JOBS,
    READY,
    SCHEDULES,
    WORKERS,
    Dispatched,
    Judge,
    Retention,
    StoreProgress,
    TakenBack,
    Trust,
)
from duly.store.verbs import Noun, reads, verb

NOW = timedelta(0)


class UpkeepStore(Noun):
    @verb(None)
    async def dispatch(self, *, limit: int, trust: Trust | None = None) -> Dispatched:
        """Make due jobs ready; expire or hurry late ones."""
        waiting = upkeep.looked(await self._db.write_one(Ask("look")))
        queues: list[str] = []
        late = upkeep.OverdueJobs()
        distrusted = False

        async def moved(start: Start[list[str]]) -> None:
            """Run an operation that makes jobs ready, if the clock is trusted."""
            nonlocal distrusted
            found = await self._db.write(lambda: upkeep.believed(start, trust))
            distrusted = distrusted or found is None
            queues.extend(found or ())

        if waiting.due is not None and waiting.due <= NOW:
            await moved(lambda: upkeep.ready(limit))
        if waiting.told or (waiting.late is not None and waiting.late < NOW):
            late = await self._db.write(
                lambda: upkeep.overdue(limit, ids=self._db.attempt(), trust=trust)
            )
            distrusted = distrusted or late.distrusted
            await self._stop_flows(late)
        if waiting.opening is not None and waiting.opening <= NOW:
            await moved(lambda: limits.open_lanes(limit))
            waiting = upkeep.looked(await self._db.write_one(Ask("look")))
        elif queues or late.hurried or late.expired:
            waiting = upkeep.looked(await self._db.write_one(Ask("look")))
        self._db.nudge(*ready_in([*queues, *late.hurried, *late.freed]))
        self._db.nudge(*sorted(late.tells))
        if late.expired:
            self._db.nudge(SCHEDULES, READY)
        return Dispatched(
            ready=len(queues),
            hurried=len(late.hurried),
            expired=late.expired,
            rest=NOW if late.more else waiting.rest,
            distrusted=distrusted,
        )

    async def _stop_flows(self, late: upkeep.OverdueJobs) -> None:
        """Stop late flows, each in a transaction of its own: a flow is locked alone."""
        for number, ending in late.flows.items():
            stopped = await self._stopped(number, ending)
            late.freed += stopped.freed
            late.tells |= stopped.tells
            late.expired += 1

    async def _stopped(self, number: int, ending: JobEnding) -> settling.EndedJobs:
        return await self._db.write(
            lambda: settling.stop_flow(number, ending, ids=self._db.attempt())
        )

    @verb(None)
    async def answer(self, *, limit: int) -> int:
        """Complete the steps whose awaited event has happened; return how many."""
        if not await self._db.write_one(Ask("any_unanswered")):
            return 0
        answered = 0
        # Events complete waiting steps even if reactions are blocked by a lock on a schedule.
        await self._db.write(lambda: upkeep.compare_unseen(limit))
        compared = limit
        while compared == limit:
            ended, compared = await self._db.write(
                lambda: upkeep.answer(limit, ids=self._db.attempt())
            )
            self._db.nudge(SCHEDULES, *sorted(ended.tells), *ready_in(ended.freed))
            answered += len(ended.ids)
        return answered

    @verb(None)
    async def sweep(self, *, limit: int) -> int:
        """Unblock jobs whose predecessor is gone, a safety net; return how many were found."""
        found = await self._db.write(lambda: upkeep.sweep(limit))
        mended = await self._db.write(lambda: settling.mend_flows(limit, ids=self._db.attempt()))
        if found or mended.ids:
            self._db.nudge(SCHEDULES, READY, *sorted(mended.tells))
        return found + len(mended.ids)

    @verb(None)
    async def hold_unknown(
        self, *, patience: timedelta, limit: int, trust: Trust | None = None
    ) -> int:
        """Set aside jobs whose task no living worker knows, so that they do not block others."""
        held = await self._db.write(
            lambda: upkeep.believed(
                lambda: upkeep.hold_unknown(patience=patience, limit=limit), trust
            )
        )
        return held or 0

    @verb(None)
    async def free_unfit(self, *, limit: int) -> int:
        """Unblock jobs whose required worker is alive again; return how many.

        As many as the limit means that there may be more.
        """
        if not await self._db.write_one(Ask("any_unfit")):
            return 0
        freed = await self._db.write(lambda: upkeep.free_unfit(limit))
        self._db.nudge(*ready_in(freed))
        return len(freed)

    @verb(None)
    async def take_back(
        self,
        judge: Judge,
        *,
        after: int,
        margin: timedelta,
        limit: int,
        trust: Trust | None = None,
    ) -> TakenBack:
        """Reclaim jobs of workers whose lease has expired or was ended.

        While the clock is not trusted, no lease counts as expired; one that was ended does.
        """
        if not await self._db.write_one(upkeep.lost(after=after, margin=margin)):
            return TakenBack()
        taken = await self._db.write(
            lambda: upkeep.take_back(
                judge,
                after=after,
                margin=margin,
                limit=limit,
                ids=self._db.attempt(),
                trust=trust,
            )
        )
        if taken.lost:
            self._db.nudge(READY, SCHEDULES)
        if taken.poisoned:  # the rest of its flow may have been asked to end
            self._db.nudge(JOBS, WORKERS)
        return taken

    @verb(None)
    async def make_days(self, *, trust: Trust | None = None) -> None:
        # One day at a time: the lock that makes or drops one is held until the commit.
        """Create the partitions of the days ahead."""
        for parent, instant in await self._db.read(lambda: upkeep.missing_days(trust)):
            await self._db.write(partial(upkeep.make_day, parent, instant))

    @verb(None)
    async def prune(self, retention: Retention, *, limit: int, trust: Trust | None = None) -> int:
        """Delete old rows; return how many. As many as the limit means that there may be more."""
        gone = await self._db.write(lambda: upkeep.prune_keys(limit))
        now = await self._db.read(lambda: upkeep.judged(trust))
        if now is None:
            return gone
        for statement, before in upkeep.prunable(retention, now):
            gone += await self._db.write(partial(upkeep.prune, statement, before, limit))
        return gone

    @reads("viewer")
    def progress(self) -> Operation[StoreProgress]:
        return upkeep.progress()
