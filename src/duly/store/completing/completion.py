"""Complete a job in the transaction of its task.

The job's row is not locked before the end of the block: while the task works, its heartbeat, a
cancellation and the reclaim of lost jobs are not blocked. At the end the job is settled as any
other is, under its fencing token, by the last statements before COMMIT. If the worker has lost the
job by then, nothing is kept.

If the answer to COMMIT is lost, another connection finds out the outcome. It locks the job's row,
so it waits until the first transaction has committed or rolled back.
"""

from collections.abc import Callable
from contextlib import closing
from types import TracebackType
from typing import Literal, NoReturn, TypeAlias

import psycopg
from psycopg import errors

from duly.clock import boottime
from duly.errors import LeaseLost, OutcomeUnknown, WrongState
from duly.model.payload import Json
from duly.store import rows
from duly.store.database import Ask, Operation
from duly.store.ids import BLOCK, Dry, Ids, reserve
from duly.store.postgres import faults
from duly.store.postgres.connections import pause
from duly.store.postgres.transaction import AsyncTransaction, Opener, Transaction, rest
from duly.store.settling import done_before, settle
from duly.store.transactions import ready_in
from duly.store.values import HeldJob, Settled, Settlement

Found: TypeAlias = Literal["done", "open", "lost"]

_TRIES = 6  # attempts to end a job if a daily partition is missing or after a deadlock
_BETWEEN_LOOKS = 0.2  # seconds


class JobCompletion:
    """``with`` and ``async with``: a connection in a transaction that ends the job.

    May be entered again after a block that failed. ``completed`` says whether the job has ended.
    """

    def __init__(
        self,
        opener: Opener,
        *,
        settlement: Callable[[Json | None], Settlement],
        encode: Callable[[object], Json],
    ) -> None:
        self.completed = False
        self._opener = opener
        self._settlement = settlement
        self._encode = encode
        self._result: Json | None = None
        self._sync: Transaction | None = None
        self._async: AsyncTransaction | None = None

    def complete(self, result: object = None, /) -> None:
        """Set the result of the job."""
        self._result = self._encode(result)

    def __enter__(self) -> Transaction:
        self._begin()
        try:
            self._sync = self._opener.open(self.complete)
        except psycopg.Error as error:
            self._explain(error)
        return self._sync

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        transaction, self._sync = self._sync, None
        if transaction is None:
            raise WrongState("the block of a transaction() was left that had not been entered")
        with closing(transaction):
            if error is None:
                self._end(transaction)

    async def __aenter__(self) -> AsyncTransaction:
        self._begin()
        try:
            self._async = await self._opener.aopen(self.complete)
        except psycopg.Error as error:
            self._explain(error)
        return self._async

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        transaction, self._async = self._async, None
        if transaction is None:
            raise WrongState("the block of a transaction() was left that had not been entered")
        try:
            if error is None:
                await self._aend(transaction)
        finally:
            await transaction.close()

    def _begin(self) -> None:
        if self.completed:
            raise WrongState(
                "the job was completed by the previous transaction(): it has ended, and cannot be "
                "completed again; write everything in one block"
            )
        if self._sync is not None or self._async is not None:
            raise WrongState("this job is inside a transaction(); leave its block before the next")
        self._result = None

    def _end(self, transaction: Transaction) -> None:
        settlement = self._settlement(self._result)
        try:
            transaction.hurry()
            topics = transaction.run(_ending(settlement))
            transaction.end()
        except psycopg.Error as error:
            if not (transaction.ending and faults.is_unknown(error)):
                self._explain(error)
            transaction.close()
            self._decide(self._look(settlement), settlement.job, error)
            topics = []
        self.completed = True
        transaction.nudge(topics)

    async def _aend(self, transaction: AsyncTransaction) -> None:
        settlement = self._settlement(self._result)
        try:
            transaction.hurry()
            topics = await transaction.run(_ending(settlement))
            await transaction.end()
        except psycopg.Error as error:
            if not (transaction.ending and faults.is_unknown(error)):
                self._explain(error)
            await transaction.close()
            self._decide(await self._alook(settlement), settlement.job, error)
            topics = []
        self.completed = True
        await transaction.nudge(topics)

    def _explain(self, error: psycopg.Error) -> NoReturn:
        """Raise duly's error for a database error before COMMIT, when nothing was written."""
        place = self._opener.place
        raise faults.translated(error, place=place, committing=False) or error from error

    def _look(self, settlement: Settlement) -> Found | None:
        """Read the outcome of the job on another connection; None if none can be opened."""
        until = boottime() + self._opener.patience
        while boottime() < until:
            try:
                with closing(self._opener.open(self.complete)) as other:
                    other.hurry()
                    return other.run(_looking(settlement))
            except psycopg.Error:
                rest(_BETWEEN_LOOKS)
        return None

    async def _alook(self, settlement: Settlement) -> Found | None:
        until = boottime() + self._opener.patience
        while boottime() < until:
            try:
                other = await self._opener.aopen(self.complete)
                try:
                    other.hurry()
                    return await other.run(_looking(settlement))
                finally:
                    await other.close()
            except psycopg.Error:
                await pause(_BETWEEN_LOOKS)
        return None

    def _decide(self, found: Found | None, job: HeldJob, error: psycopg.Error) -> None:
        said = faults.said_by(error)
        if found == "open":
            raise faults.unavailable(self._opener.place, said) from error
        if found == "lost":
            raise _lost(job) from error
        if found is None:
            raise OutcomeUnknown(
                f"{self._opener.place} was lost while job {job.id} was completed, and did not "
                f"come back to confirm the commit: {said}"
            ) from error


def _ending(settlement: Settlement) -> Operation[list[str]]:
    """End the job; return the topics to notify."""
    settled = yield from _settled(settlement)
    topics = {*settled.tells, *ready_in(settled.freed)}
    if settlement.job.id in settled.before:
        raise WrongState(f"job {settlement.job.id} was completed already: nothing is written twice")
    if settlement.job.id in settled.refused:
        raise _lost(settlement.job)
    return sorted(topics)


def _settled(settlement: Settlement) -> Operation[Settled]:
    """Settle the job, and retry where that may help; a savepoint keeps the task's writes."""
    ids, tries = Ids(), 0
    while True:
        yield Ask("savepoint")
        try:
            return (yield from settle([settlement], ids=ids.attempt()))
        except Dry as dry:  # there are callbacks, or steps of a flow, and they need numbers
            yield Ask("go back")
            for _ in range(dry.needed // BLOCK + 1):
                ids.add((yield from reserve()))
        except (errors.DeadlockDetected, errors.CheckViolation) as error:
            tries += 1
            if tries == _TRIES or not _may_help(error):
                raise
            yield Ask("go back")
            yield from _make_days()


def _may_help(error: psycopg.Error) -> bool:
    return isinstance(error, errors.DeadlockDetected) or faults.is_missing_partition(error)


def _make_days() -> Operation[None]:
    """Create the partitions of today and tomorrow, in the same transaction."""
    for parent, instant in (yield Ask("missing_days", {"days": 1})):
        yield Ask("make_day", {"parent": parent, "instant": instant})


def _looking(settlement: Settlement) -> Operation[Found]:
    job = settlement.job
    mine = [{"id": job.id, "fence": job.fence}]
    held = yield Ask("hold_jobs", {"rows": rows.packed(mine)})
    if held:
        return "open"
    mine_already = yield from done_before({job.id: (job.fence, settlement.verdict.state)})
    return "done" if mine_already else "lost"


def _lost(job: HeldJob) -> LeaseLost:
    return LeaseLost(
        f"this worker does not hold job {job.id} any more: the job was taken back, and another "
        "worker may be running it; the changes in its transaction() were rolled back"
    )
