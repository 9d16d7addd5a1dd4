"""Run the store's named statements on a caller's connection.

The driver decides the placeholders of a statement and how values are passed (``DRIVERS``). The
database decides their form: a list is an array on PostgreSQL and JSON on SQLite, and the time is
the server's on PostgreSQL and a value on SQLite. On PostgreSQL a text is cast to text: a driver
that was taught to write jsonb would quote it again.

Several statements are all or nothing: they get a transaction of their own where none is open, and a
savepoint where the caller could go on after an error.

A driver is recognised by the names of its classes and never imported: one that is not installed
need not be, and one of which there is a connection has been imported already, so it is found among
the modules. Rows are asked for as plain tuples, whatever the caller has chosen for the rest.
"""

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

from duly import clock
from duly.errors import InvalidValue, SchemaMismatch
from duly.instants import to_us
from duly.store.database import Ask, Dialect, Operation, Row, Value, run_on
from duly.store.ids import BLOCK, Ids
from duly.store.statements import OwnStatements, statements, with_places

Connection: TypeAlias = Any  # of a driver that may not be installed here
Values: TypeAlias = Any  # as the driver wants them


class Style(NamedTuple):
    """A driver's parameter style (PEP 249): its placeholders, and the form of the values."""

    place: str
    by_name: bool = False
    repeated: bool = False  # a value is given as often as it has a place


STYLES = {
    "pyformat": Style("%({name})s", by_name=True),
    "format": Style("%s", repeated=True),
    "named": Style(":{name}", by_name=True),
    "qmark": Style("?", repeated=True),
    "numeric_dollar": Style("${number}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The way to use connections of some classes."""

    package: str
    classes: tuple[str, ...]
    execute: Callable[[Connection, str, Values], Any]  # rows; where it waits, to be awaited
    waits: bool = False
    reach: Callable[[Connection], Connection] = lambda connection: connection
    dialect: Callable[[Connection], str] = lambda _: "postgresql"
    style: Callable[[Connection], str] = lambda _: "pyformat"
    in_transaction: Callable[[Connection], bool] = lambda _: True  # after a first statement
    module: Callable[[Connection], str] = lambda one: type(one).__module__  # of the driver itself
    # Leads to something that lends a connection of another kind, one that does not wait.
    relay: Callable[[Connection], Awaitable[Connection]] | None = None


def recognised(connection: object) -> Driver | None:
    for kind in type(connection).__mro__:
        for driver in DRIVERS:
            if kind.__name__ in driver.classes and kind.__module__.split(".")[0] == driver.package:
                return driver
    return None


def _psycopg(connection: Connection, text: str, values: Values) -> list[Row]:
    psycopg = sys.modules["psycopg"]
    with psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        return _fetched(cursor.execute(text, values))


async def _psycopg_async(connection: Connection, text: str, values: Values) -> list[Row]:
    psycopg = sys.modules["psycopg"]
    async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        await cursor.execute(text, values)
        return await cursor.fetchall() if cursor.description else []


def _psycopg2(connection: Connection, text: str, values: Values) -> list[Row]:
    plain = sys.modules["psycopg2.extensions"].cursor
    with connection.cursor(cursor_factory=plain) as cursor:
        cursor.execute(text, values)
        return _fetched(cursor)


async def _asyncpg(connection: Connection, text: str, values: Values) -> list[Row]:
    return [tuple(record) for record in await connection.fetch(text, *(values or ()))]


def _sqlite3(connection: Connection, text: str, values: Values) -> list[Row]:
    with closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        return _fetched(cursor.execute(text, values or {}))


def _django(connection: Connection, text: str, values: Values) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return _fetched(cursor)


def _sqlalchemy(connection: Connection, text: str, values: Values) -> list[Row]:
    result = connection.exec_driver_sql(text, values)
    return [tuple(row) for row in result] if result.returns_rows else []


def _fetched(cursor: Connection) -> list[Row]:
    return list(cursor.fetchall()) if cursor.description else []


def _beneath(connection: Connection) -> bool:
    """Return whether a transaction is open, according to the driver under a framework."""
    driver = recognised(connection)
    return driver is None or driver.in_transaction(connection)


async def _itself(connection: Connection) -> Connection:
    return connection


_LIBPQ: dict[str, Any] = {"in_transaction": lambda one: one.info.transaction_status != 0}
_SQLALCHEMY: dict[str, Any] = {
    "package": "sqlalchemy",
    "execute": _sqlalchemy,
    "dialect": lambda one: one.dialect.name,
    "style": lambda one: one.dialect.paramstyle,
    "module": lambda one: type(one.connection.driver_connection).__module__,
    "in_transaction": lambda one: _beneath(one.connection.driver_connection),
}

DRIVERS = (
    Driver(package="psycopg", classes=("Connection",), execute=_psycopg, **_LIBPQ),
    Driver(
        package="psycopg",
        classes=("AsyncConnection",),
        execute=_psycopg_async,
        waits=True,
        **_LIBPQ,
    ),
    Driver(package="psycopg2", classes=("connection",), execute=_psycopg2, **_LIBPQ),
    Driver(
        package="asyncpg",
        classes=("Connection", "PoolConnectionProxy"),
        execute=_asyncpg,
        waits=True,
        style=lambda _: "numeric_dollar",
        in_transaction=lambda one: one.is_in_transaction(),
    ),
    *(
        Driver(
            package=package,
            classes=("Connection",),
            execute=_sqlite3,
            dialect=lambda _: "sqlite",
            style=lambda _: "named",
            in_transaction=lambda one: one.in_transaction,
        )
        for package in ("sqlite3", "pysqlite3")
    ),
    Driver(
        package="django",
        classes=("BaseDatabaseWrapper", "ConnectionProxy"),
        execute=_django,
        dialect=lambda one: one.vendor,
        module=lambda one: one.Database.__name__,
        in_transaction=lambda one: _beneath(one.connection),
    ),
    Driver(classes=("Connection",), **_SQLALCHEMY),
    Driver(
        classes=("Session", "scoped_session"), reach=lambda one: one.connection(), **_SQLALCHEMY
    ),
    Driver(classes=("AsyncConnection",), waits=True, relay=_itself, **_SQLALCHEMY),
    Driver(
        classes=("AsyncSession", "async_scoped_session"),
        waits=True,
        relay=lambda one: one.connection(),
        **_SQLALCHEMY,
    ),
)


T = TypeVar("T")

ACCEPTED = (
    "a connection of psycopg, psycopg2, asyncpg or sqlite3, a Connection or Session of SQLAlchemy "
    "(or its AsyncConnection, AsyncSession), or a connection of Django, to PostgreSQL or SQLite"
)
NO_TABLES = (
    "the connection's database has no duly tables; give a connection to the database that duly "
    "uses, or run duly db migrate on this one"
)

# As our own databases are, which are not imported here: they bring their drivers along.
DIALECTS = {
    "postgresql": Dialect("postgres"),
    "sqlite": Dialect("sqlite", skip_locked=False, partitions=False, writes_at_once=False),
}

_BRACKETS = {
    "begin": "begin",
    "commit": "commit",
    "rollback": "rollback",
    "savepoint": "savepoint duly_write",
    "release": "release savepoint duly_write",
    "go back": "rollback to savepoint duly_write",
}
_OURS = {
    "postgres": {
        # The first thing that we ask. Without tables it is null, where an error would end the
        # caller's transaction.
        "reserve_ids": "select nextval(to_regclass('duly.id_block'))",
        "isolation": "select current_setting('transaction_isolation')",
        "notify": "select pg_notify('duly', topic) from unnest(:topics::text[]) as topic",
    },
    # The right to write is taken before the first read, as in transactions of our own.
    "sqlite": {"begin": "begin immediate"},
}
_NO_TEXTS: frozenset[str] = frozenset()

# A commit with a notification waits for every other such commit of the server. So a process sends
# one for each topic in this time, and the rest is found by polling.
_QUIET_SECONDS = 0.01
_notified_at: dict[str, float] = {}


class Brackets(NamedTuple):
    """The statements before and after an operation, and those that undo it if one fails."""

    before: str
    after: str
    instead: tuple[str, ...]


_TRANSACTION = Brackets("begin", "commit", ("rollback",))
_SAVEPOINT = Brackets("savepoint", "release", ("go back", "release"))


@dataclass(frozen=True, slots=True)
class CallerConnection:
    """A connection, with everything that is needed to send statements on it."""

    driver: Driver
    connection: Connection
    dialect: Dialect
    style: Style
    now: int | None  # None: the server knows

    @classmethod
    def on(cls, driver: Driver, connection: Connection) -> "CallerConnection":
        connection = driver.reach(connection)
        database, style = driver.dialect(connection), driver.style(connection)
        if database not in DIALECTS or style not in STYLES:
            raise refused(f"{named(connection)} of {driver.package} to {database} ({style})")
        if database == "sqlite":
            _refuse_other_sqlite(driver.module(connection))
        dialect = DIALECTS[database]
        now = None if dialect.name == "postgres" else to_us(clock.now())
        return cls(driver, connection, dialect, STYLES[style], now)

    @property
    def on_postgres(self) -> bool:
        return self.dialect.name == "postgres"

    def ask(self, ask: Ask) -> Any:  # noqa: ANN401 - rows, or an awaitable of them
        texts = _NO_TEXTS
        if self.on_postgres:
            texts = frozenset(name for name, value in ask.values.items() if isinstance(value, str))
        written = _written(self.dialect, self.style, ask.statement, texts)
        values = written.filled(self._bound(ask.values)) if written.names else None
        return self.driver.execute(self.connection, written.text, values)

    def brackets(self, *, whole: bool) -> Brackets | None:
        """Return the transaction or savepoint that an operation needs; None if it needs neither.

        ``whole``: the operation may be refused after it has written, and is then undone completely.

        Call this after a first statement, which is what begins the caller's transaction.

        From the 65th savepoint that writes in one transaction, reads of all sessions are slower on
        PostgreSQL. So there is no savepoint where it is not needed: an error of the server aborts
        the transaction there anyway.
        """
        if not self.driver.in_transaction(self.connection):
            return _TRANSACTION
        return None if self.on_postgres and not whole else _SAVEPOINT

    def _bound(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        if self.on_postgres:
            return values
        bound = {
            name: json.dumps(value) if isinstance(value, (list, tuple)) else value
            for name, value in values.items()
        }
        return {**bound, "now": self.now}


def _refuse_other_sqlite(module: str) -> None:
    """Refuse a connection of another SQLite library than the one that duly uses here."""
    from duly.store.sqlite.connection import LIBRARY, sqlite3  # noqa: PLC0415 - only for SQLite

    library = "pysqlite3" if module.startswith("pysqlite3") else "sqlite3"
    if library != LIBRARY:
        raise InvalidValue(
            f"the connection uses {library}, but duly uses {LIBRARY} (SQLite "
            f"{sqlite3.sqlite_version}) in this process: two SQLite libraries on one file in one "
            f"process can damage it; connect with {LIBRARY}, or uninstall pysqlite3"
        )


async def carry_out(caller: CallerConnection, operation: Operation[T]) -> T:
    return await run_on(caller.ask, operation)


def bracketed(brackets: Brackets | None, operation: Operation[T]) -> Operation[T]:
    if brackets is None:
        return (yield from operation)
    yield Ask(brackets.before)
    try:
        result = yield from operation
    except BaseException:
        with suppress(Exception):  # a lost connection has lost its changes too
            for statement in brackets.instead:
                yield Ask(statement)
        raise
    yield Ask(brackets.after)
    return result


def reserved(count: int) -> Operation[Ids]:
    """Reserve at least this many ids; unused ones are lost.

    SQLite takes the reservation back when the caller rolls back.

    Before any savepoint: this is what makes sqlite3 begin the caller's transaction. A savepoint
    outside one would be a transaction itself, and its release the commit.
    """
    ids = Ids()
    for _ in range(-(-count // BLOCK)):
        try:
            [(block,)] = yield Ask("reserve_ids")
        except Exception as error:
            if "no such table: duly_" in str(error):
                raise SchemaMismatch(NO_TABLES) from error
            raise
        if block is None:
            raise SchemaMismatch(NO_TABLES)
        ids.add(block)
    return ids


def notified(caller: CallerConnection, topics: Iterable[str]) -> Operation[None]:
    """Let PostgreSQL notify other processes when the caller's transaction commits.

    Processes on SQLite watch the file.
    """
    now = clock.boottime()
    new = [topic for topic in topics if now - _notified_at.get(topic, 0.0) >= _QUIET_SECONDS]
    if caller.on_postgres and new:
        _notified_at.update(dict.fromkeys(new, now))
        yield Ask("notify", {"topics": new})


def driver_of(connection: object) -> Driver:
    driver = recognised(connection)
    if driver is None:
        raise refused(f"{named(connection)} of {type(connection).__module__}")
    return driver


def refused(found: str) -> InvalidValue:
    return InvalidValue(
        f"{found} is not a connection that duly can write to; supported: {ACCEPTED}"
    )


def named(connection: object) -> str:
    name = type(connection).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


class _Written(NamedTuple):
    """A statement in a driver's form, and the names of its values in placeholder order."""

    text: str
    names: tuple[str, ...]
    by_name: bool

    def filled(self, values: Mapping[str, Value]) -> Values:
        if self.by_name:
            return {name: values[name] for name in self.names}
        return tuple(values[name] for name in self.names)


@lru_cache(maxsize=1_000)
def _written(dialect: Dialect, style: Style, statement: str, texts: frozenset[str]) -> _Written:
    names: list[str] = []

    def place(name: str) -> str:
        if name == "now" and dialect.name == "postgres":
            return "null"
        if style.repeated or name not in names:
            names.append(name)
        cast = "::text" if name in texts else ""
        return style.place.format(name=name, number=names.index(name) + 1) + cast

    percent = "%%" if "%" in style.place else "%"
    text = with_places(_texts(dialect)[statement], place, percent=percent)
    if not names:  # then no driver looks for places, or at percent signs
        text = text.replace(percent, "%")
    return _Written(text, tuple(names), style.by_name)


@cache
def _texts(dialect: Dialect) -> Mapping[str, str]:
    # How long a caller's transaction waits for a lock is not for us to say.
    patient = {"hold_schedules_briefly": statements(dialect)["hold_schedules"]}
    return OwnStatements({**patient, **_BRACKETS, **_OURS[dialect.name]}, dialect)
