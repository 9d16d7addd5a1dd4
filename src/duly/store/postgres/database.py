"""Runs operations on PostgreSQL.

Every call ends by its deadline. A failure before COMMIT is sent has changed nothing; from then
until its answer arrives, the outcome is unknown, and ``OutcomeUnknown`` says so. A time-out or a
cancellation closes the connection: an answer that still arrives is discarded.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar, cast

import psycopg
from psycopg import errors

from duly.clock import Timeout
from duly.errors import SchemaMismatch, StoreUnavailable
from duly.instants import to_us
from duly.store.database import Ask, Dialect, Migration, Operation, Row, Start, alone
from duly.store.migrate import NO_TABLES
from duly.store.postgres import connections as faults
from duly.store.postgres.connections import Connection, Connections, Connector, pause, settings
from duly.store.postgres.notify import Notifier, NotifyListener, hears
from duly.store.statements import for_libpq
from duly.store.statements import statements as statements_of

# Two processes that prepare an empty database at once collide in the server's own catalogues.
# One of them has done it then.
COLLISIONS = (
    errors.UniqueViolation,
    errors.DuplicateSchema,
    errors.DuplicateTable,
    errors.InternalError_,  # tuple concurrently updated
)

_PREPARE = b"""
create schema if not exists duly;
create table if not exists duly.migration (
    number     int    primary key,
    name       text   not null,
    applied_at bigint not null,
    minimum    int    not null
)
"""

# What has millions of rows may take its time; the lock may not.
_LOCK = b"""
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = 0;
set local lock_timeout = '2s';
lock table duly.migration in share row exclusive mode
"""

_RECORD = b"""
insert into duly.migration (number, name, applied_at, minimum)
values (%(number)s, %(name)s,
        coalesce(%(now)s::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
        %(minimum)s)
"""


async def is_prepared(connection: Connection) -> bool:
    # Asked first: "create … if not exists" wants the right to create even where it does nothing.
    asked = await connection.execute(b"select to_regclass('duly.migration') is not null")
    return await asked.fetchone() == (True,)


async def prepare(connection: Connection) -> None:
    if not await is_prepared(connection):
        await connection.execute(_PREPARE)


async def applied(connection: Connection) -> list[int]:
    if not await is_prepared(connection):
        return []
    asked = await connection.execute(b"select number from duly.migration order by number")
    return [number for (number,) in await asked.fetchall()]


async def minimum(connection: Connection) -> int:
    if not await is_prepared(connection):
        return 0
    asked = await connection.execute(b"select coalesce(max(minimum), 0) from duly.migration")
    found = await asked.fetchone()
    return found[0] if found else 0


async def apply(connection: Connection, migration: Migration, *, now: int | None) -> bool:
    """Apply a migration inside a transaction; return False if it was applied already."""
    await connection.execute(_LOCK)
    if migration.number in await applied(connection):
        return False
    await connection.execute(migration.script.encode())
    values = {
        "number": migration.number,
        "name": migration.name,
        "minimum": migration.minimum,
        "now": now,
    }
    await connection.execute(_RECORD, values)
    return True


T = TypeVar("T")

POSTGRES = Dialect("postgres")

# Creates the partition that a row was missing, from the table's name and the server's detail.
MissingPartition: TypeAlias = Callable[[str, str], Operation[None]]

_TRIES = 6  # of a transaction that deadlocks or cannot be put in an order with others
_MIGRATION_TRIES = 40  # at two seconds of waiting for a lock, and one of letting others pass
_MIGRATION_DEADLINE = timedelta(hours=1)

_COMMIT = "the answer to a commit"


class PostgresDatabase:
    def __init__(
        self,
        url: str,
        *,
        dialect: Dialect = POSTGRES,
        clock: Callable[[], datetime] | None = None,
        connections: int = 2,
        deadline: timedelta = timedelta(seconds=10),
        statements: Mapping[str, str] | None = None,
        on_missing_partition: MissingPartition | None = None,
    ) -> None:
        self._texts = statements_of(dialect) if statements is None else statements
        connect = Connector(url, dialect=dialect, deadline=deadline)
        self.dialect = dialect
        self._clock = clock
        self._deadline = deadline
        self._on_missing_partition = on_missing_partition
        self._connect = connect
        self._place = connect.place
        self._connections = Connections(connect, at_most=connections)
        self._begin_write = _begin("begin", dialect, deadline=deadline)
        self._begin_read = _begin(
            "begin isolation level repeatable read read only", dialect, deadline=deadline
        )
        self._opened = False
        self._listeners: list[Callable[[str], None]] = []
        self._notifier: Notifier | None = None
        self._listener: NotifyListener | None = None
        if dialect.notify:
            self._notifier = Notifier(connect, deadline=deadline)
            self._listener = NotifyListener(connect, self._notifier, self._tell)

    @property
    def is_listening(self) -> bool:
        """Return whether notifications of other processes arrive; otherwise callers only poll."""
        return self._listener is not None and self._listener.listening

    async def open(self) -> None:
        """Open the first connection, and begin to listen if there is a listener."""
        self._connections.open()
        await self._call(lambda call: self._transaction(call, self._begin_read, _nothing))
        self._opened = True
        self._hear()

    async def close(self) -> None:
        self._opened = False
        if self._listener and self._notifier:
            await self._listener.close()
            await self._notifier.close()
        await self._connections.close()

    async def write(self, start: Start[T], /) -> T:
        return await self._call(lambda call: self._repeated(call, self._begin_write, start))

    async def write_one(self, ask: Ask, /) -> list[Row]:
        return await self._call(lambda call: self._alone(call, ask))

    async def read(self, start: Start[T], /) -> T:
        return await self._call(lambda call: self._repeated(call, self._begin_read, start))

    def nudge(self, topics: Sequence[str], /) -> None:
        if self._notifier and self._opened:
            self._notifier.nudge(topics)

    def listen(self, listener: Callable[[str], None], /) -> None:
        self._listeners.append(listener)
        self._hear()

    def _hear(self) -> None:
        """Listen to other processes once somebody is told: a process that only enqueues is not."""
        if self._listener and self._listeners and self._opened:
            self._listener.start()

    async def hears(self) -> bool:
        """Test now whether notifications arrive; ``listening`` is the result of an earlier test."""
        return await self._call(lambda _: hears(self._connect, deadline=self._deadline))

    async def applied(self) -> list[int]:
        return await self._call(lambda call: self._transaction(call, self._begin_read, applied))

    async def minimum(self) -> int:
        return await self._call(lambda call: self._transaction(call, self._begin_read, minimum))

    async def apply(self, migration: Migration, /) -> bool:
        return await self._call(
            lambda call: self._migrated(call, migration), deadline=_MIGRATION_DEADLINE
        )

    async def _call(
        self, work: "Callable[[_Call], Awaitable[T]]", *, deadline: timedelta | None = None
    ) -> T:
        """Do the work before the deadline, and translate database errors to duly's errors."""
        call = _Call()
        seconds = (deadline or self._deadline).total_seconds()
        timer = Timeout(seconds)
        try:
            async with timer:
                return await work(call)
        except TimeoutError:
            if not timer.expired():
                raise
            await self._connections.drop_idle()
            said = f"{call.awaits} did not come within {seconds:g} s"
            if call.awaits == _COMMIT:
                raise faults.outcome_unknown(self._place, said) from None
            raise faults.unavailable(self._place, said) from None
        except psycopg.Error as error:
            committing = call.awaits == _COMMIT
            meaning = faults.translated(error, place=self._place, committing=committing)
            if meaning is None:
                raise
            raise meaning from error

    async def _repeated(self, call: "_Call", begin: bytes, start: Start[T]) -> T:
        """Run the operation, again after a deadlock or when the partition of a day was missing."""
        passing, missing = 0, set[str]()
        while True:
            try:
                return await self._operated(call, begin, start)
            except faults.PASSING:
                passing += 1
                if passing == _TRIES:
                    raise
            except errors.CheckViolation as error:
                row = error.diag.message_detail or ""
                if row in missing or not faults.is_missing_partition(error):
                    raise
                missing.add(row)  # each once: a batch may reach over many days
                await self._make_partition(call, error)

    async def _alone(self, call: "_Call", ask: Ask) -> list[Row]:
        """Run one statement without a transaction around it: one round trip instead of three."""
        if not self.dialect.session:  # where deadlines are set by the transaction
            return await self._repeated(call, self._begin_write, lambda: alone(ask))
        call.awaits = "a connection"
        async with self._connections.one() as connection:
            call.awaits = _COMMIT
            try:
                return await self._rows(connection, ask)
            except (errors.CheckViolation, errors.UndefinedTable, *faults.PASSING):
                call.awaits = "an answer"  # it was refused, so nothing was done
            except BaseException as error:
                await self._undo(call, connection, error)
                raise
        return await self._repeated(call, self._begin_write, lambda: alone(ask))

    async def _make_partition(self, call: "_Call", error: psycopg.Error) -> None:
        make, diag = self._on_missing_partition, error.diag
        if make is None:
            raise error
        table, row = diag.table_name or "", diag.message_detail or ""
        await self._operated(call, self._begin_write, lambda: make(table, row))

    async def _operated(self, call: "_Call", begin: bytes, start: Start[T]) -> T:
        try:
            return await self._transaction(
                call, begin, lambda connection: self._answered(connection, start)
            )
        except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
            raise SchemaMismatch(NO_TABLES) from error

    async def _transaction(
        self, call: "_Call", begin: bytes, work: Callable[[Connection], Awaitable[T]]
    ) -> T:
        call.awaits = "a connection"
        async with self._connections.one() as connection:
            call.awaits = "an answer"
            try:
                await connection.execute(begin, prepare=False)
                result = await work(connection)
                if begin is self._begin_write:
                    call.awaits = _COMMIT
                await connection.commit()
            except BaseException as error:
                await self._undo(call, connection, error)
                raise
        return result

    async def _undo(self, call: "_Call", connection: Connection, error: BaseException) -> None:
        if not faults.is_unknown(error):
            call.awaits = "an answer"
        if faults.is_lost(error):
            await connection.close()
            await self._connections.drop_idle()
        elif not connection.closed:
            with suppress(psycopg.Error):
                await connection.rollback()

    async def _answered(self, connection: Connection, start: Start[T]) -> T:
        with closing(start()) as operation:
            try:
                ask = next(operation)
                while True:
                    ask = operation.send(await self._rows(connection, ask))
            except StopIteration as end:
                return cast(T, end.value)

    async def _rows(self, connection: Connection, ask: Ask) -> list[Row]:
        values = {"now": self._now(), **ask.values}
        return await connection.rows(for_libpq(self._texts[ask.statement]), values)

    async def _migrated(self, call: "_Call", migration: Migration) -> bool:
        with suppress(*COLLISIONS):
            await self._transaction(call, self._begin_write, prepare)
        for _ in range(_MIGRATION_TRIES):
            try:
                return await self._transaction(
                    call,
                    self._begin_write,
                    lambda connection: apply(connection, migration, now=self._now()),
                )
            except (errors.LockNotAvailable, *faults.PASSING):
                await pause(1)
        raise StoreUnavailable(
            f"{self._place} is in use: migration {migration.number} ({migration.name}) found its"
            f" tables locked {_MIGRATION_TRIES} times; look for a long transaction in"
            " pg_stat_activity, and run duly db migrate again"
        )

    def _now(self) -> int | None:
        """Return the time of the given clock; None if the server's clock is used."""
        return to_us(self._clock()) if self._clock else None

    def _tell(self, topic: str) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.call_soon(listener, topic)


class _Call:
    """The current wait of a call: a failure while it awaits COMMIT has an unknown outcome."""

    __slots__ = ("awaits",)

    def __init__(self) -> None:
        self.awaits = "a connection"


async def _nothing(connection: Connection) -> None:
    """Do nothing, in a transaction that only tests the connection."""


def _begin(text: str, dialect: Dialect, *, deadline: timedelta) -> bytes:
    if dialect.session:
        return text.encode()
    local = (f"set local {name} = {value}" for name, value in settings(deadline).items())
    return "; ".join([text, *local]).encode()
