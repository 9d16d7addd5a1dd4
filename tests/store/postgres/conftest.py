"""Databases of a test: opened when it asks for one, closed when it ends."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import psycopg
import pytest

from duly.store.database import Dialect
from duly.store.postgres.database import PostgresDatabase
from tests.infrastructure.proxy import Proxy
from tests.store.postgres.notes import STATEMENTS, TABLE

# Without nudges, which have tests of their own.
QUIET = Dialect("postgres", notify=False)

Opened: TypeAlias = Callable[..., Awaitable[PostgresDatabase]]
Other: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]


@pytest.fixture
def dsn(pg_dsn: str) -> str:
    with psycopg.connect(pg_dsn) as connection:
        connection.execute(TABLE)
    return pg_dsn


@pytest.fixture
async def opened(every_task_is_done: None) -> AsyncIterator[Opened]:
    made: list[PostgresDatabase] = []

    async def open_one(dsn: str, **options: Any) -> PostgresDatabase:
        options = {"dialect": QUIET, "statements": STATEMENTS, **options}
        made.append(PostgresDatabase(dsn, **options))
        await made[-1].open()
        return made[-1]

    yield open_one
    for database in made:
        await database.close()


@pytest.fixture
async def database(dsn: str, opened: Opened) -> PostgresDatabase:
    return await opened(dsn)


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[Other]:
    """A connection of somebody else."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(dsn) as between:
        yield between


@pytest.fixture
async def behind_proxy(proxy: Proxy, opened: Opened) -> PostgresDatabase:
    return await opened(proxy.dsn, deadline=timedelta(seconds=0.5))
