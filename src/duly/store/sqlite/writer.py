"""The writer and the reader of a SQLite database.

The writer makes one commit of all requests that arrived during the previous one: with many callers
a commit costs each of them a fraction of an fsync, and a single caller does not wait.
Each of several operations has a savepoint, so that one which fails is undone alone.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic

from duly.clock import boottime
from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.store.sqlite.connection import (
    MEMORY,
    Synchronous,
    closed_on_error,
    connect,
    connect_to_read,
    primary_code,
    sqlite3,
    told,
)
from duly.store.sqlite.lock import FileLock, Stall
from duly.store.sqlite.thread import Take, ThreadRequest

# The write lock is taken before the first read: no other process writes between an operation's
# reads and the writes that depend on them.
BEGIN = "begin immediate"
# How long SQLite itself waits for the write lock, before we note that another program has it.
BUSY = timedelta(milliseconds=250)
MOST_OPERATIONS = 256
WATCH_SECONDS = 0.1
IDLE_SECONDS = 1.0
TRUNCATE_BYTES = 64 * 1024 * 1024
# Readers finish within a second; waiting for them here blocks every writer.
TRUNCATE_PATIENCE = timedelta(milliseconds=100)
TRUNCATE_REST_SECONDS = 10.0
CLOSING_PATIENCE = timedelta(seconds=5)


class Writer:
    name = "writer"
    at_most = MOST_OPERATIONS

    def __init__(
        self,
        path: Path | str,
        lock: FileLock | None,
        *,
        synchronous: Synchronous,
        patience: timedelta,
        make_up: Callable[[sqlite3.Connection, Stall], None] = lambda *_: None,
    ) -> None:
        self.pulse: float = IDLE_SECONDS
        self._path = path
        self._file = OpenedFile(path)
        self._make_up = make_up
        self._lock = lock
        self._synchronous = synchronous
        self._patience = patience
        self._foreign: Callable[[], None] | None = None
        self._version = 0
        self._truncate_after = monotonic()

    def watch(self, foreign: Callable[[], None]) -> None:
        """Call ``foreign``, in the thread, soon after any other connection has written."""
        self._foreign = foreign
        self.pulse = WATCH_SECONDS

    def connect(self, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
        with self._locked():
            connection = connect(
                self._path, self._synchronous, busy=self._patience / 2, factory=factory
            )
        with closed_on_error(connection):
            connection.execute(f"pragma busy_timeout = {_milliseconds(BUSY)}")
            self._file.opened()
            self._version = _version(connection)
        return connection

    def serve(self, connection: sqlite3.Connection, take: Take, /) -> None:
        """Begin the transaction, then take requests: until then callers can withdraw them."""
        with self.begun(connection):
            write(connection, take())

    @contextmanager
    def begun(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Hold the lock and a transaction; roll back writes that were not committed."""
        with self._locked():
            self._file.check()
            self._begin(connection)
            try:
                yield
            finally:
                roll_back(connection)
            self._file.check()  # what was written into a file without a name is not there
            self._truncate_a_large_log(connection)

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction; after a stall, first prolong the leases by its length."""
        lock = self._lock
        if lock is None:
            connection.execute(BEGIN)
            return
        began = boottime()
        asked = began
        while not _begun(connection):
            before, now = lock.stall(), boottime()
            since, seconds = (asked, 0.0) if before is None else (before.since, before.seconds)
            stall = Stall(since, now, seconds + now - asked)
            lock.note(stall)
            asked = now
            if now - began >= self._patience.total_seconds() / 2:
                raise stall.blocked(Path(self._path))
        stall_over = lock.stall()
        if stall_over is not None:
            self._make_up(connection, stall_over)
            connection.execute("commit")
            lock.note(None)
            self._begin(connection)

    def look(self, connection: sqlite3.Connection, /) -> None:
        if self._foreign is None:
            return
        with suppress(sqlite3.Error):  # the next look will tell
            before, self._version = self._version, _version(connection)
            if self._version != before:
                self._foreign()

    def close(self, connection: sqlite3.Connection, /) -> None:
        """Close under the lock: the last connection to close checkpoints and removes the log."""
        try:
            with self._locked(min(self._patience, CLOSING_PATIENCE)):
                connection.close()
        except StoreUnavailable:
            self._close_without_checkpoint(connection)

    def _close_without_checkpoint(self, connection: sqlite3.Connection) -> None:
        last = connect_to_read(Path(self._path))
        last.execute("select count(*) from sqlite_master").fetchall()  # which opens the log
        connection.close()
        last.close()

    def _locked(self, patience: timedelta | None = None) -> AbstractContextManager[None]:
        if self._lock is None:
            return nullcontext()
        # Half: an error that says what is in the way comes before the one that says it is late.
        return self._lock.held(patience or self._patience / 2)

    def _truncate_a_large_log(self, connection: sqlite3.Connection) -> None:
        """Truncate a large log: after a large commit, or if readers block checkpoints."""
        if self._file.log_bytes < TRUNCATE_BYTES or monotonic() < self._truncate_after:
            return
        self._truncate_after = monotonic() + TRUNCATE_REST_SECONDS
        with suppress(sqlite3.Error):  # what was asked is committed all the same
            connection.execute(f"pragma busy_timeout = {_milliseconds(TRUNCATE_PATIENCE)}")
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
            connection.execute(f"pragma busy_timeout = {_milliseconds(BUSY)}")


class Reader:
    """Runs reading operations one after the other, each on one snapshot of the file."""

    name = "reader"
    at_most = 1
    pulse = IDLE_SECONDS

    def __init__(self, path: Path, patience: timedelta) -> None:
        self._path = path
        self._file = OpenedFile(path)
        self._patience = patience

    def connect(self) -> sqlite3.Connection:
        connection = connect_to_read(self._path, busy=self._patience / 2)
        with closed_on_error(connection):
            self._file.opened()
        return connection

    def serve(self, connection: sqlite3.Connection, take: Take, /) -> None:
        self._file.check()
        for request in take():
            connection.execute("begin")
            try:
                request.carry_out(connection)
            finally:
                roll_back(connection)

    def look(self, connection: sqlite3.Connection, /) -> None:
        pass

    def close(self, connection: sqlite3.Connection, /) -> None:
        connection.close()


class OpenedFile:
    """The identity of the opened file. Its name may later lead to another file, or to none.

    Writes then go into a file that no process will open again. The same is true of a log whose
    name is gone.
    """

    def __init__(self, path: Path | str) -> None:
        self._paths = () if str(path) == MEMORY else (str(path), f"{path}-wal")
        self._known: list[tuple[int, int] | None] = []
        self.log_bytes: int = 0  # when it was last checked

    def opened(self) -> None:
        """Remember the file that was just opened."""
        self._known = [self._identity(path) for path in self._paths]

    def check(self) -> None:
        """Raise an error if the names do not lead to the opened files any more."""
        for number, (path, known) in enumerate(zip(self._paths, self._known, strict=True)):
            found = self._identity(path)
            if known is None:
                self._known[number] = found  # the first connection to need it makes the log
            elif found != known:
                what = "was deleted or moved" if found is None else "was replaced by another file"
                raise StoreUnavailable(
                    f"{path} {what} while this process had it open, so nothing is written any "
                    "more: put the file back, or restart every process that uses it"
                )

    def _identity(self, path: str) -> tuple[int, int] | None:
        """Return device and inode of a file, without opening it: that would drop SQLite's locks."""
        try:
            found = os.stat(path)  # noqa: PTH116 - a path that is asked for with every commit
        except FileNotFoundError:
            self.log_bytes = 0
            return None
        self.log_bytes = found.st_size  # of the last path, which is the log's
        return found.st_dev, found.st_ino


def _begun(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute(BEGIN)
    except sqlite3.OperationalError as error:
        if primary_code(error) != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def write(connection: sqlite3.Connection, requests: list[ThreadRequest]) -> None:
    """Run the requests in the current transaction, and commit."""
    if len(requests) == 1:
        _write_alone(connection, requests[0])
        return
    for request in requests:
        connection.execute("savepoint operation")
        request.carry_out(connection)
        if not connection.in_transaction:
            # A full disk rolls back the whole transaction, not only the failed statement.
            _each_alone(connection, requests)
            return
        if request.error is not None:
            connection.execute("rollback to operation")
        connection.execute("release operation")
    _commit(connection, requests)


def _write_alone(connection: sqlite3.Connection, request: ThreadRequest) -> None:
    """Run a request that has the transaction to itself, and so needs no savepoint."""
    request.carry_out(connection)
    if request.error is None:
        _commit(connection, [request])
    else:
        roll_back(connection)


def roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("rollback")


def _each_alone(connection: sqlite3.Connection, requests: list[ThreadRequest]) -> None:
    """Run each request in its own transaction: one cannot be done and must not fail the others."""
    for request in requests:
        try:
            connection.execute(BEGIN)
        except sqlite3.Error as error:
            request.error = told(error)
        else:
            _write_alone(connection, request)


def _commit(connection: sqlite3.Connection, requests: list[ThreadRequest]) -> None:
    try:
        connection.execute("commit")
    except sqlite3.Error as error:
        roll_back(connection)
        failure = _failed_commit(error)
        for request in requests:
            request.error = request.error or failure


def _failed_commit(error: sqlite3.Error) -> Exception:
    """Return the error of a failed commit.

    If the log could not be synced, the outcome is unknown: it may be intact after a power failure.
    """
    if primary_code(error) != sqlite3.SQLITE_IOERR:
        return told(error)
    unknown = OutcomeUnknown(f"SQLite could not sync what was written: {error}")
    unknown.__cause__ = error
    return unknown


def _version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when any other connection commits."""
    version: int = connection.execute("pragma data_version").fetchone()[0]
    return version


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
