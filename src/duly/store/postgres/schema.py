"""The record of migrations in a PostgreSQL database, and how one is applied.

A migration waits for a lock for two seconds at most: later transactions queue behind its lock
request, and running nodes must not stop because one long report holds a table.
"""

from psycopg import errors

from duly.store.database import Migration
from duly.store.postgres.connections import Connection

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
