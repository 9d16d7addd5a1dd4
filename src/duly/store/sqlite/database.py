"""A SQLite file as a ``Database``: a writer, a reader, a lock, and wake-ups of other processes.

The machine's clock is the clock: every statement of an operation is given the moment at which the
operation began to run.
"""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from duly import clock as wall
from duly.errors import StoreUnavailable
from duly.instants import to_us
from duly.store.database import Ask, Dialect, Migration, Row, Start, alone
from duly.store.sqlite.connection import (
    MEMORY,
    Synchronous,
    applied_migrations,
    apply_migration,
    minimum_migration,
    run,
    sqlite3,
)
from duly.store.sqlite.lock import FileLock, Stall, reason
from duly.store.sqlite.thread import ConnectionThread, Work
from duly.store.sqlite.wake import SqliteWake
from duly.store.sqlite.writer import WATCH_SECONDS, Reader, Writer
from duly.store.statements import statements as statements_of

T = TypeVar("T")

# There is one writer at a time, so there are no locked rows to skip.
SQLITE = Dialect("sqlite", skip_locked=False, partitions=False, writes_at_once=False)
PROLONG = "update duly_worker set lease_until = lease_until + :stalled where lease_until > :since"
ANY_TOPIC = "*"  # something changed, and it is not known what
DEADLINE = timedelta(seconds=30)
# A change that is seen so long after a process has told of one is taken for that one.
TELLING_SECONDS = 2 * WATCH_SECONDS


class SqliteDatabase:
    """``path`` may be ``:memory:``, which no other process and no other database object sees.

    Without ``create``, a missing file is not created; without ``writes``, the file is only read: no
    lock, no log, no socket beside it. Without ``watches``, listeners are not told of changes by
    other programs.
    """

    dialect: Dialect = SQLITE

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Callable[[], datetime] = wall.now,
        synchronous: Synchronous = "full",
        deadline: timedelta = DEADLINE,
        statements: Mapping[str, str] | None = None,
        create: bool = True,
        writes: bool = True,
        watches: bool = True,
    ) -> None:
        # Two names of one file must lead to one lock.
        self._path = None if str(path) == MEMORY else Path(path).resolve()
        self._clock = clock
        self._deadline = deadline
        self._texts = statements_of(self.dialect) if statements is None else statements
        self._create = create
        self._writes = writes or self._path is None
        self._watches = watches
        self._told_at = float("-inf")
        self._listeners: list[Callable[[str], None]] = []
        self._lock = FileLock(Path(f"{self._path}.lock")) if self._path else None
        self._wake = SqliteWake(Path(f"{self._path}-wake"), self._told) if self._path else None
        self._duty = Writer(
            self._path or MEMORY,
            self._lock,
            synchronous=synchronous,
            patience=deadline,
            make_up=partial(prolong_leases, clock),
        )
        self._writer: ConnectionThread | None = None
        self._reader: ConnectionThread | None = None
        self._forked = False

    async def open(self) -> None:
        if self._reader is not None or self._writer is not None or self._forked:
            self._ready(self._reader or self._writer)
            return
        _OPENED.add(self)
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._forked:
            return
        for thread in (self._reader, self._writer):
            if thread is not None:
                await thread.stop()
        self._reader = self._writer = None
        if self._wake is not None:
            self._wake.close()
        if self._lock is not None:
            self._lock.close()

    async def write(self, start: Start[T], /) -> T:
        return await self._ready(self._writer).ask(self._work(start))

    async def write_one(self, ask: Ask, /) -> list[Row]:
        return await self.write(lambda: alone(ask))

    async def read(self, start: Start[T], /) -> T:
        return await self._ask_reader(self._work(start))

    def nudge(self, topics: Sequence[str], /) -> None:
        if self._wake is not None and not self._forked:
            self._wake.nudge(topics)

    def listen(self, listener: Callable[[str], None], /) -> None:
        self._listeners.append(listener)
        self._watch()

    @property
    def is_listening(self) -> bool:
        return self._path is None or (self._wake is not None and self._wake.is_open)

    async def applied(self) -> list[int]:
        return await self._ask_reader(applied_migrations)

    async def minimum(self) -> int:
        return await self._ask_reader(minimum_migration)

    async def apply(self, migration: Migration, /) -> bool:
        return await self._ready(self._writer).ask(
            lambda connection: apply_migration(connection, migration, to_us(self._clock()))
        )

    async def _open(self) -> None:
        if self._path is not None:
            make_file(self._path, create=self._create and self._writes)
        if self._writes:
            await self._open_to_write()
        if self._path is not None:
            self._reader = ConnectionThread(Reader(self._path, self._deadline), self._deadline)
            await self._reader.start()
        if self._wake is not None and self._writes:
            self._wake.open()
            self._watch()

    async def _open_to_write(self) -> None:
        if self._lock is not None:
            self._lock.open()
        self._writer = ConnectionThread(self._duty, self._deadline)
        await self._writer.start()

    def _work(self, start: Start[T]) -> Work[T]:
        return lambda connection: run(
            connection, start(), texts=self._texts, now_us=to_us(self._clock())
        )

    async def _ask_reader(self, work: Work[T]) -> T:
        if self._path is None:
            return await self._ready(self._writer).ask(
                _without_writing(work), late=StoreUnavailable
            )
        return await self._ready(self._reader).ask(work, late=StoreUnavailable)

    def _ready(self, thread: ConnectionThread | None) -> ConnectionThread:
        if self._forked:
            raise StoreUnavailable(
                f"{self._path or MEMORY} was opened before this process was forked, and SQLite's "
                "connections do not survive that; open a database of its own in the child"
            )
        if thread is None:
            raise StoreUnavailable(f"{self._path or MEMORY} is not open; await open() first")
        return thread

    def _watch(self) -> None:
        """Watch for changes by programs that do not notify us: Django, a shell."""
        if (
            self._watches
            and self._listeners
            and self._path is not None
            and self._writer is not None
        ):
            thread = self._writer
            self._duty.watch(lambda: thread.tell(self._changed))

    def _told(self, topic: str) -> None:
        """Another process of ours has written and tells what."""
        self._told_at = wall.boottime()
        self._hear(topic)

    def _changed(self) -> None:
        """Another connection has written: a program that never tells, unless one just told."""
        if wall.boottime() - self._told_at >= TELLING_SECONDS:
            self._hear(ANY_TOPIC)

    def _hear(self, topic: str) -> None:
        for listener in self._listeners:
            listener(topic)

    def _forget(self) -> None:
        """In a forked child: drop the parent's resources, without closing connections.

        Connections are safe: they belong to frames of threads that do not exist here and never end.
        """
        self._forked = True
        if self._wake is not None:
            self._wake.forget()


def prolong_leases(
    clock: Callable[[], datetime], connection: sqlite3.Connection, stall: Stall
) -> None:
    """Prolong leases that were alive when the stall began by the time of the stall."""
    since = to_us(clock()) - round((wall.boottime() - stall.since) * 1_000_000)
    with suppress(sqlite3.OperationalError):  # there are no tables yet
        connection.execute(PROLONG, {"since": since, "stalled": round(stall.seconds * 1e6)})


def make_file(path: Path, *, create: bool) -> None:
    """Create the file, accessible only to its owner, unless it exists; never without ``create``.

    An existing file is not opened: closing it would drop every lock that SQLite has on it in this
    process.
    """
    try:
        if path.is_dir():
            raise StoreUnavailable(f"{path} is a folder; give the path of a file in it")
        if path.exists():
            return
        if not create:
            raise StoreUnavailable(_missing(path))
        _create_durably(path)
    except FileExistsError:
        return  # by another process, meanwhile
    except FileNotFoundError:
        raise StoreUnavailable(
            f"cannot create {path}: the folder {path.parent} does not exist: create it"
        ) from None
    except OSError as error:
        raise StoreUnavailable(f"cannot create {path}: {reason(error)}") from error


def _missing(path: Path) -> str:
    """Return the message for a missing file; ``./`` shows that this folder was searched."""
    shown = f"./{path.name}" if path.parent == Path.cwd() else str(path)
    return (
        f"no database at {shown}; name another (--store, DULY_URL), or create this one: start "
        f"the app (duly up), or duly db migrate --store {shlex.quote(shown)}"
    )


def _create_durably(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _without_writing(work: Work[T]) -> Work[T]:
    def reading(connection: sqlite3.Connection) -> T:
        connection.execute("pragma query_only = on")
        try:
            return work(connection)
        finally:
            connection.execute("pragma query_only = off")

    return reading


_OPENED: WeakSet[SqliteDatabase] = WeakSet()


def _forget_all() -> None:
    for database in _OPENED:
        database._forget()  # noqa: SLF001


os.register_at_fork(after_in_child=_forget_all)
