"""A task's own transaction, which ends its job together with what the task has written.

    async with current().transaction() as tx:
        await tx.execute("insert into invoice …")
        tx.complete({"invoices": 1})

The commit *is* the completion: either both are there or neither is, whatever dies in between.

On PostgreSQL the job's row is not locked before the end of the block: while the task works, its
heartbeat, a cancellation and the reclaim of lost jobs are not blocked. In an SQLite file they wait,
and the block has a time limit. At the end the job is settled as any other is, under its fencing
token, by the last statements before COMMIT. If the worker has lost the job by then, nothing is
kept.

If the answer to COMMIT is lost, another connection finds out the outcome. It locks the job's row,
so it waits until the first transaction has committed or rolled back.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, TypeVar

from duly import clock
from duly.errors import (
    DulyError,
    InvalidValue,
    LeaseLost,
    OutcomeUnknown,
    StoreUnavailable,
    WrongState,
)
from duly.model.payload import Json
from duly.store import rows
from duly.store.connect import is_postgres, is_remote, place, postgres_extra, spoken
from duly.store.database import Ask, Operation, at_once, done
from duly.store.ids import BLOCK, Dry, Ids, reserve
from duly.store.job_endings import done_before, settle
from duly.store.sqlite.connection import MEMORY
from duly.store.sqlite.transaction import SqliteOpener
from duly.store.transactions import ready_in
from duly.store.values import HeldJob, Settled, Settlement

T = TypeVar("T")
Found: TypeAlias = Literal["done", "open", "lost"]

_TRIES = 6  # attempts to end a job if a daily partition is missing or after a deadlock
_BETWEEN_READS = 0.2  # seconds


class TaskTransaction(Protocol):
    """The connection that a task gets, in a transaction; of an asynchronous one, calls are awaited.

    One implementation below serves both kinds, see ``database.done``.
    """

    @property
    def expired(self) -> bool: ...  # rolled back because it took too long
    @property
    def ending(self) -> bool: ...  # whether COMMIT was sent
    def hurry(self) -> None: ...
    def run(self, operation: Operation[T], /) -> T | Awaitable[T]: ...
    def end(self) -> Awaitable[None] | None: ...
    def nudge(self, topics: list[str], /) -> Awaitable[None] | None: ...
    def close(self) -> Awaitable[None] | None: ...


class TransactionOpener(Protocol):
    """Opens connections for tasks, and knows the errors of their driver."""

    place: str
    patience: float
    error: type[Exception]  # of the driver

    def open(self, complete: Callable[..., None], /) -> TaskTransaction: ...
    async def aopen(self, complete: Callable[..., None], /) -> TaskTransaction: ...

    def translated(self, error: Any, /) -> Exception | None:  # noqa: ANN401 - of the driver
        """Return duly's error to raise instead; None if this one is the task's own mistake."""
        ...

    def is_unknown(self, error: Any, /) -> bool:  # noqa: ANN401 - of the driver
        """Return whether a commit that failed with this error may have been done."""
        ...

    def may_help(self, error: Any, /) -> bool:  # noqa: ANN401 - of the driver
        """Return whether to end the job again, after its days were made."""
        ...


Open: TypeAlias = Callable[
    [Callable[..., None]], TaskTransaction | Coroutine[Any, Any, TaskTransaction]
]


class JobCompletion:
    """``with`` and ``async with``: a connection in a transaction that ends the job.

    May be entered again after a block that failed. ``completed`` says whether the job has ended.
    """

    def __init__(
        self,
        opener: TransactionOpener,
        *,
        settlement: Callable[[Json | None], Settlement],
        encode: Callable[[object], Json],
    ) -> None:
        self.completed: bool = False
        self._opener = opener
        self._settlement = settlement
        self._encode = encode
        self._result: Json | None = None
        self._open: Open = opener.open
        self._transaction: TaskTransaction | None = None

    def complete(self, result: object = None, /) -> None:
        """Set the result of the job."""
        self._result = self._encode(result)

    def __enter__(self) -> Any:  # noqa: ANN401 - the driver's connection
        return at_once(self._enter(self._opener.open))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        at_once(self._leave(error))

    async def __aenter__(self) -> Any:  # noqa: ANN401 - as above
        return await self._enter(self._opener.aopen)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave(error)

    async def _enter(self, opening: Open) -> TaskTransaction:
        if self.completed:
            raise WrongState(
                "the job was completed by the previous transaction(): it has ended, and cannot be "
                "completed again; write everything in one block"
            )
        if self._transaction is not None:
            raise WrongState("this job is inside a transaction(); leave its block before the next")
        self._open, self._result = opening, None
        try:
            self._transaction = await done(opening(self.complete))
        except self._opener.error as error:
            self._explain(error)
        return self._transaction

    async def _leave(self, error: BaseException | None) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            raise WrongState("the block of a transaction() was left that had not been entered")
        try:
            if error is None or transaction.expired:
                await self._end(transaction)
        finally:
            await done(transaction.close())

    async def _end(self, transaction: TaskTransaction) -> None:
        settlement = self._settlement(self._result)
        try:
            transaction.hurry()
            topics = await done(transaction.run(_ending(settlement, self._opener.may_help)))
            await done(transaction.end())
        except self._opener.error as error:
            if not (transaction.ending and self._opener.is_unknown(error)):
                self._explain(error)
            await done(transaction.close())
            self._decide(await self._find_outcome(settlement), settlement.job, error)
            topics = []
        self.completed = True
        await done(transaction.nudge(topics))

    def _explain(self, error: Exception) -> NoReturn:
        """Raise duly's error for a database error before COMMIT, when nothing was written."""
        raise self._opener.translated(error) or error from error

    async def _find_outcome(self, settlement: Settlement) -> Found | None:
        """Read the outcome of the job on another connection; None if none can be opened."""
        until = clock.boottime() + self._opener.patience
        while clock.boottime() < until:
            try:
                other = await done(self._open(self.complete))
                try:
                    other.hurry()
                    return await done(other.run(_outcome_of(settlement)))
                finally:
                    await done(other.close())
            except (self._opener.error, StoreUnavailable):
                if self._open == self._opener.open:
                    _rest()
                else:
                    await asyncio.to_thread(_rest)
        return None

    def _decide(self, found: Found | None, job: HeldJob, error: Exception) -> None:
        if found == "open":
            self._explain(error)
        if found == "lost":
            raise _lost(job) from error
        if found is None:
            raise OutcomeUnknown(
                f"{self._opener.place} was lost while job {job.id} was completed, and did not "
                f"come back to confirm the commit: {' '.join(str(error).split())}"
            ) from error


def _ending(settlement: Settlement, may_help: Callable[[Exception], bool]) -> Operation[list[str]]:
    """End the job; return the topics to notify."""
    settled = yield from _settled(settlement, may_help)
    topics = {*settled.tells, *ready_in(settled.freed)}
    if settlement.job.id in settled.before:
        raise WrongState(f"job {settlement.job.id} was completed already: nothing is written twice")
    if settlement.job.id in settled.refused:
        raise _lost(settlement.job)
    return sorted(topics)


def _settled(settlement: Settlement, may_help: Callable[[Exception], bool]) -> Operation[Settled]:
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
        except DulyError:
            raise
        except Exception as error:
            tries += 1
            if tries == _TRIES or not may_help(error):
                raise
            yield Ask("go back")
            yield from _make_days()


def _make_days() -> Operation[None]:
    """Create the partitions of today and tomorrow, in the same transaction."""
    for parent, instant in (yield Ask("missing_days", {"days": 1})):
        yield Ask("make_day", {"parent": parent, "instant": instant})


def _outcome_of(settlement: Settlement) -> Operation[Found]:
    job = settlement.job
    mine = [{"id": job.id, "fence": job.fence}]
    held = yield Ask("hold_jobs", {"rows": rows.packed(mine)})
    if held:
        return "open"
    mine_already = yield from done_before({job.id: (job.fence, settlement.verdict.state)})
    return "done" if mine_already else "lost"


def _rest() -> None:
    """Wait between two attempts; no test and no guarantee depends on how long."""
    threading.Event().wait(_BETWEEN_READS)


def _lost(job: HeldJob) -> LeaseLost:
    return LeaseLost(
        f"this worker does not hold job {job.id} any more: the job was taken back, and another "
        "worker may be running it; the changes in its transaction() were rolled back"
    )


def open_completion(
    url: str,
    *,
    settlement: Callable[[Json | None], Settlement],
    encode: Callable[[object], Json],
    lease: timedelta,
    features: bool = True,
    clock: Callable[[], datetime] | None = None,
) -> JobCompletion:
    """Return the context manager behind ``transaction()``, for one attempt at a job.

    ``settlement`` says what the job becomes, with its result as it was encoded by ``encode``.
    """
    if is_postgres(url):
        opener = _postgres(url, lease=lease, features=features, clock=clock)
    elif is_remote(url) or url == MEMORY:
        raise InvalidValue(
            "transaction() needs a database that the task can open, PostgreSQL or an SQLite file, "
            f"but the store is {place(url)}: make the task idempotent"
        )
    else:
        opener = SqliteOpener(place(url), lease=lease, clock=clock)
    return JobCompletion(opener, settlement=settlement, encode=encode)


def _postgres(
    url: str, *, lease: timedelta, features: bool, clock: Callable[[], datetime] | None
) -> TransactionOpener:
    with postgres_extra():
        from duly.store.postgres import transaction  # noqa: PLC0415 - an extra
    address, dialect = spoken(url, features=features)
    return transaction.Opener(address, dialect=dialect, lease=lease, clock=clock)
