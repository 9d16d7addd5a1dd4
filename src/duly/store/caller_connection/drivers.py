"""The supported kinds of callers' connections, and how to use each: one table, ``DRIVERS``.

A driver is recognised by the names of its classes and never imported: one that is not installed
need not be, and one of which there is a connection has been imported already, so it is found among
the modules. Rows are asked for as plain tuples, whatever the caller has chosen for the rest.
"""

import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from duly.store.database import Row

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
