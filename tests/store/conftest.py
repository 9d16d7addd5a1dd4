"""Stores for the conformance suite: each check begins with an empty one, whose clock is virtual."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from duly.store.database import Database, Dialect
from duly.store.migrate import migrate
from duly.store.postgres.database import POSTGRES, PostgresDatabase
from duly.store.protocol import Store
from duly.store.sql_store import SqlStore
from duly.store.sqlite.database import SqliteDatabase
from duly.testing.clock import VirtualClock
from duly.testing.conformance import Make
from tests.infrastructure.cluster import Cluster
from tests.infrastructure.postgres import GivenServer, at_database

# Migrated once for the whole run; emptied before each check.
DIALECTS = {"featured": POSTGRES, "featureless": POSTGRES.without_features()}

EMPTIED = """
do $$
declare parent text;
begin
    for parent in
        select relname from pg_class
         where relnamespace = 'duly'::regnamespace and relkind in ('r', 'p')
           and not relispartition and relname <> 'migration'
    loop
        execute format('delete from duly.%I', parent);
    end loop;
end $$
"""


@asynccontextmanager
async def opened(database: Database, *, migrated: bool = False) -> AsyncIterator[Store]:
    await database.open()
    try:
        if not migrated:
            await migrate(database)
        yield SqlStore(database)
    finally:
        await database.close()


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Make:
    def make(clock: VirtualClock) -> object:
        return opened(SqliteDatabase(tmp_path / "duly.db", clock=clock, synchronous="off"))

    return make


@pytest.fixture
def sqlite_memory() -> Make:
    return lambda clock: opened(SqliteDatabase(":memory:", clock=clock))
