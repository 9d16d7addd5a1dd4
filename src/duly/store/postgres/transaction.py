"""A connection for a task's own statements, in a transaction that duly commits.

It is an ordinary psycopg connection, with psycopg's own types. The statements of the store go
through a cursor of their own, with the store's types.

A client that vanishes must not hold its locks longer than its lease. A server that does not answer
is waited for, while the task works, as long as the task likes; while the job is ended, no longer
than the lease either.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from duly.clock import boottime
from duly.errors import StoreUnavailable, WrongState
from duly.instants import to_us
from duly.store.database import Ask, Dialect, Operation, Row, at_once, run_on
from duly.store.postgres import connections as faults
from duly.store.postgres.connections import (
    KEEPALIVES,
    Connection,
    place_of,
    read_address,
    use_our_types,
)
from duly.store.postgres.notify import NOTIFY
from duly.store.statements import OwnStatements, for_psycopg

T = TypeVar("T")

LOOK_SECONDS = 0.1  # between looks whether the time for an answer is over
Complete = Callable[..., None]

_BRACKETS = {
    "savepoint": "savepoint duly_end",
    "go back": "rollback to savepoint duly_end",
}
_ENDED_BY_ITS_BLOCK = (
    "this transaction ends with its block, together with the job: leave the block to commit, raise "
    "an error in it to roll back, or use tx.transaction() for a savepoint"
)


class Opener:
    """Opens connections for tasks."""

    error: type[Exception] = psycopg.Error

    def __init__(
        self,
        address: str,
        *,
        dialect: Dialect,
        lease: timedelta,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        given = read_address(address)
        milliseconds = lease // timedelta(milliseconds=1)
        defaults = {
            **KEEPALIVES,
            "application_name": "duly task",
            "connect_timeout": max(2, math.ceil(lease.total_seconds() / 2)),
            "tcp_user_timeout": milliseconds // 2,
        }
        self.place: str = place_of(given)
        self.patience: float = lease.total_seconds()
        self.notifies: bool = dialect.notify
        self._conninfo = make_conninfo("", **{**defaults, **given})
        self._options: dict[str, Any] = {} if dialect.session else {"prepare_threshold": None}
        self._dialect = dialect
        self._clock = clock
        # By the transaction and not by the connection: so it gets through a pooler.
        self._first = f"set local idle_in_transaction_session_timeout = {milliseconds}".encode()

    def open(self, complete: Complete) -> "Transaction":
        transaction = Transaction.connect(self._conninfo, **self._options)
        transaction.made_by(self, complete)
        transaction.execute(self._first, prepare=False)
        return transaction

    async def aopen(self, complete: Complete) -> "AsyncTransaction":
        transaction = await AsyncTransaction.connect(self._conninfo, **self._options)
        transaction.made_by(self, complete)
        await transaction.execute(self._first, prepare=False)
        return transaction

    def statement(self, ask: Ask) -> tuple[bytes, dict[str, object]]:
        now = to_us(self._clock()) if self._clock else None
        text = OwnStatements(_BRACKETS, self._dialect)[ask.statement]
        return for_psycopg(text), {**ask.values, "now": now}

    def translated(self, error: psycopg.Error) -> StoreUnavailable | None:
        return faults.translated(error, place=self.place, committing=False)

    def is_unknown(self, error: psycopg.Error) -> bool:
        return faults.is_unknown(error)

    def may_help(self, error: Exception) -> bool:
        return isinstance(error, psycopg.errors.DeadlockDetected) or (
            isinstance(error, psycopg.Error) and faults.is_missing_partition(error)
        )


class _Task:
    """Common base of the synchronous and the asynchronous connection of a task."""

    _opener: Opener
    _complete: Complete
    _until: float | None = None
    expired = False  # the server itself limits how long it may be idle
    ending = False  # whether COMMIT was sent

    def made_by(self, opener: Opener, complete: Complete) -> None:
        self._opener = opener
        self._complete = complete

    def complete(self, result: object = None, /) -> None:
        """Set the result of the job. The job ends with the block."""
        self._complete(result)

    def hurry(self) -> None:
        """Limit all waits from now on to the length of the lease."""
        self._until = boottime() + self._opener.patience

    def in_time(self, waiting: PQGen[T]) -> PQGen[T]:
        """Wrap psycopg's wait so that it raises an error when the time limit is over."""
        try:
            wanted = next(waiting)
            while True:
                ready = yield wanted
                if not ready and self._until is not None and boottime() > self._until:
                    raise psycopg.OperationalError("no answer came within the lease")
                wanted = waiting.send(ready)
        except StopIteration as end:
            return cast(T, end.value)


class Transaction(_Task, psycopg.Connection[Any]):
    def wait(
        self, gen: PQGen[T], interval: float = LOOK_SECONDS, timeout: float | None = None
    ) -> T:
        limits = {} if timeout is None else {"timeout": timeout}
        return super().wait(self.in_time(gen), interval, **limits)

    def commit(self) -> None:
        raise WrongState(_ENDED_BY_ITS_BLOCK)

    def rollback(self) -> None:
        raise WrongState(_ENDED_BY_ITS_BLOCK)

    def run(self, operation: Operation[T]) -> T:
        _check(self)
        with closing(operation), psycopg.Cursor(self, row_factory=tuple_row) as cursor:
            use_our_types(cursor.adapters)

            def rows(ask: Ask) -> list[Row]:
                cursor.execute(*self._opener.statement(ask))
                return cursor.fetchall() if cursor.description else []

            return at_once(run_on(rows, operation))

    def end(self) -> None:
        self.ending = True
        super().commit()

    def nudge(self, topics: Sequence[str]) -> None:
        """Notify other processes if possible: it is only a hint."""
        if topics and self._opener.notifies:
            with suppress(psycopg.Error):
                self.execute(NOTIFY, [list(topics)])
                super().commit()

    def close(self) -> None:
        """Roll back uncommitted writes; all locks are released when this returns."""
        self.hurry()
        with suppress(psycopg.Error):
            super().rollback()
        super().close()


class AsyncTransaction(_Task, Connection):
    async def wait(
        self,
        gen: PQGen[T],
        interval: float = LOOK_SECONDS,
        timeout: float | None = None,  # noqa: ASYNC109 - psycopg's
    ) -> T:
        return await super().wait(self.in_time(gen), interval, timeout)

    async def commit(self) -> None:
        raise WrongState(_ENDED_BY_ITS_BLOCK)

    async def rollback(self) -> None:
        raise WrongState(_ENDED_BY_ITS_BLOCK)

    async def run(self, operation: Operation[T]) -> T:
        _check(self)
        with closing(operation):
            async with psycopg.AsyncCursor(self, row_factory=tuple_row) as cursor:
                use_our_types(cursor.adapters)

                async def rows(ask: Ask) -> list[Row]:
                    await cursor.execute(*self._opener.statement(ask))
                    return await cursor.fetchall() if cursor.description else []

                return await run_on(rows, operation)

    async def end(self) -> None:
        self.ending = True
        await super().commit()

    async def nudge(self, topics: Sequence[str]) -> None:
        """Notify other processes if possible: it is only a hint."""
        if topics and self._opener.notifies:
            with suppress(psycopg.Error):
                await self.execute(NOTIFY, [list(topics)])
                await super().commit()

    async def close(self) -> None:
        """Roll back uncommitted writes; all locks are released when this returns."""
        self.hurry()
        with suppress(psycopg.Error):
            await super().rollback()
        await super().close()


def _check(connection: Transaction | AsyncTransaction) -> None:
    if connection.pgconn.transaction_status == TransactionStatus.IDLE:
        raise WrongState(
            "the transaction was ended inside its block, by commit or rollback: earlier writes "
            "are not atomic with the job, which is not completed"
        )
