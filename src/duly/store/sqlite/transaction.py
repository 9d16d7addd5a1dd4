"""A connection for a task's own statements, in a transaction that duly commits.

It is an ordinary ``sqlite3`` connection. A file has one writer at a time, so the block holds the
lock of all writers from its beginning to its end, and every other write waits: heartbeats, claims,
new jobs. That must not cost a worker its lease, so a timer rolls back a block that takes longer
than a third of the lease: its connection writes nothing any more, and the lock is free. The timer
waits for a statement that is running: to interrupt it would end the transaction, and SQLite would
commit the task's next write by itself.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Lock, Timer
from typing import Any, Final, NoReturn, TypeVar, cast

from duly import clock as wall
from duly.errors import WrongState
from duly.instants import to_us
from duly.store.database import Operation
from duly.store.sqlite.connection import primary_code, run, sqlite3, told
from duly.store.sqlite.database import SQLITE, prolong_leases
from duly.store.sqlite.lock import FileLock
from duly.store.sqlite.wake import Mailbox
from duly.store.sqlite.writer import Writer
from duly.store.statements import OwnStatements

T = TypeVar("T")
Complete = Callable[..., None]

LONGEST = timedelta(seconds=5)
_TEXTS = OwnStatements(
    {"savepoint": "savepoint duly_end", "go back": "rollback to savepoint duly_end"}, SQLITE
)
_ENDED_BY_ITS_BLOCK = (
    "this transaction ends with its block, together with the job: leave the block to commit, raise "
    "an error in it to roll back, or use a savepoint"
)


class SqliteOpener:
    """Opens connections for tasks."""

    error: type[Exception] = sqlite3.Error

    def __init__(
        self, path: str, *, lease: timedelta, clock: Callable[[], datetime] | None = None
    ) -> None:
        self.path: Path = Path(path).resolve()
        self.place: str = str(self.path)
        self.patience: float = lease.total_seconds()
        self.longest: float = min(lease / 3, LONGEST).total_seconds()
        self._clock = clock or wall.now
        self._lease = lease

    def open(self, complete: Complete) -> "SqliteTransaction":
        with ExitStack() as opened:
            lock = FileLock(Path(f"{self.path}.lock"))
            lock.open()
            opened.callback(lock.close)
            writer = Writer(
                self.path,
                lock,
                synchronous="full",
                patience=self._lease,
                make_up=partial(prolong_leases, self._clock),
            )
            transaction = cast(SqliteTransaction, writer.connect(SqliteTransaction))
            opened.callback(writer.close, transaction)
            block = ExitStack()
            block.enter_context(writer.begun(transaction))
            transaction.made_by(self, complete, block=block, opened=opened.pop_all())
        return transaction

    async def aopen(self, complete: Complete) -> "AsyncSqliteTransaction":
        return AsyncSqliteTransaction(await _in_a_thread(self.open, complete))

    def now_us(self) -> int:
        return to_us(self._clock())

    def translated(self, error: Exception) -> Exception | None:
        """Return duly's error to raise instead; None if this one is the task's own mistake."""
        found = told(error)
        return None if found is error else found

    def is_unknown(self, error: Exception) -> bool:
        """Return whether a failed commit may have been done: the log could not be synced."""
        return primary_code(error) == sqlite3.SQLITE_IOERR

    def may_help(self, error: Exception) -> bool:  # noqa: ARG002 - as asked; a file has no deadlocks
        """Return whether to try again."""
        return False


class SqliteTransaction(sqlite3.Connection):
    row_factory: Any
    text_factory: Any
    expired: bool = False  # rolled back because it took too long
    ending: bool = False  # whether COMMIT was sent
    _opened: ExitStack | None = None  # what closes the connection

    def made_by(
        self, opener: SqliteOpener, complete: Complete, *, block: ExitStack, opened: ExitStack
    ) -> None:
        self._opener = opener
        self._complete = complete
        self._block = block  # the lock and the transaction
        self._opened = opened
        self._guard = Lock()
        self._timer = Timer(opener.longest, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def complete(self, result: object = None, /) -> None:
        """Set the result of the job. The job ends with the block."""
        self._complete(result)

    def commit(self) -> None:
        raise WrongState(_ENDED_BY_ITS_BLOCK)

    def rollback(self) -> None:
        raise WrongState(_ENDED_BY_ITS_BLOCK)

    def executescript(self, *_: object) -> NoReturn:
        raise WrongState("executescript() commits first: call execute() for each statement")

    def hurry(self) -> None:
        """Do nothing: the timer limits the whole block."""

    def run(self, operation: Operation[T]) -> T:
        with closing(operation), self._guard:
            self._check()
            self.row_factory, self.text_factory = None, str
            return run(self, operation, texts=_TEXTS, now_us=self._opener.now_us())

    def end(self) -> None:
        with self._guard:
            self._check()
            self.ending = True
            self.execute("commit")
            self._block.close()

    def nudge(self, topics: Sequence[str]) -> None:
        """Notify other processes if possible: it is only a hint."""
        if topics:
            with suppress(OSError), closing(Mailbox(Path(f"{self._opener.path}-wake"))) as mailbox:
                mailbox.send(topics)
                mailbox.remove()

    def close(self) -> None:
        """Roll back uncommitted writes; all locks are released when this returns."""
        opened, self._opened = self._opened, None
        if opened is None:
            super().close()
            return
        self._timer.cancel()
        with self._guard, opened, self._block:
            pass

    def _expire(self) -> None:
        with self._guard:
            if not self.in_transaction:
                return
            self.expired = True
            # First: a statement of the task's after the rollback would commit by itself.
            self.execute("pragma query_only = on")
            self._block.close()

    def _check(self) -> None:
        if self.expired:
            raise WrongState(
                f"the block of transaction() held the write lock of {self._opener.place} for "
                f"{self._opener.longest:g} s, and nobody else could write: it was rolled back, and "
                "the job is not completed; do slow work before the block"
            )
        if not self.in_transaction:
            raise WrongState(
                "the transaction was ended inside its block, by commit or rollback: earlier writes "
                "are not atomic with the job, which is not completed"
            )


class AsyncSqliteTransaction:
    """The same for coroutines: statements run in a thread, one at a time."""

    def __init__(self, connection: SqliteTransaction) -> None:
        self.connection = connection
        self.complete: Final = connection.complete
        self.hurry: Final = connection.hurry

    @property
    def ending(self) -> bool:
        return self.connection.ending

    @property
    def expired(self) -> bool:
        return self.connection.expired

    async def execute(self, text: str, values: Any = (), /) -> "AsyncCursor":  # noqa: ANN401
        return AsyncCursor(await _in_a_thread(self.connection.execute, text, values))

    async def executemany(self, text: str, values: Iterable[Any], /) -> "AsyncCursor":
        return AsyncCursor(await _in_a_thread(self.connection.executemany, text, values))

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def run(self, operation: Operation[T]) -> T:
        return await _in_a_thread(self.connection.run, operation)

    async def end(self) -> None:
        await _in_a_thread(self.connection.end)

    async def nudge(self, topics: Sequence[str]) -> None:
        await _in_a_thread(self.connection.nudge, topics)

    async def close(self) -> None:
        await _in_a_thread(self.connection.close)


class AsyncCursor:
    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.rowcount: int = cursor.rowcount
        self.lastrowid: int | None = cursor.lastrowid
        self._cursor = cursor

    async def fetchone(self) -> Any:  # noqa: ANN401 - a row, or None
        return await _in_a_thread(self._cursor.fetchone)

    async def fetchall(self) -> list[Any]:
        return await _in_a_thread(self._cursor.fetchall)


async def _in_a_thread(work: Callable[..., T], *values: Any) -> T:
    """Run a call that may wait; a task that is cancelled goes on when the call has returned."""
    call = asyncio.ensure_future(asyncio.to_thread(work, *values))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise
