"""Stores for the conformance suite: each check begins with an empty one, whose clock is virtual.

Slow steps are done once: a SQLite file is migrated and then copied; a PostgreSQL database is
migrated, opened for a whole group of checks, and emptied between two of them.
"""

import sqlite3
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from duly.model.job import Claimed
from duly.store.connect import connect
from duly.store.database import Database
from duly.store.migrate import migrate
from duly.store.store import SqlStore, Store
from duly.testing.clock import VirtualClock
from tests.conformance import Make
from tests.factories import call
from tests.infrastructure.cluster import Cluster
from tests.infrastructure.loops import finished
from tests.infrastructure.postgres import GivenServer, at_database, drop
from tests.infrastructure.tables import with_tables
from tests.store.completing import Leave, by_awaiting, by_blocking, claimed
from tests.store.postgres.notes import TABLE

# Deleting is quicker than truncating where a table holds a few rows, but leaves its pages to be
# looked through ever after. Days that were made stay; those that never had a row are passed over.
EMPTY = """
do $$
declare
    name text;
    pages integer;
begin
    for name, pages in
        select relname, pg_relation_size(oid) / 8192
          from pg_class
         where relnamespace = 'duly'::regnamespace and relkind = 'r' and relname <> 'migration'
           and pg_relation_size(oid) > 0
    loop
        -- The audit log is only ever added to, but by who may take its guards away.
        if name = 'audit' then
            alter table duly.audit disable trigger user;
        end if;
        if pages > 50 then
            execute format('truncate duly.%I', name);
        else
            execute format('delete from duly.%I', name);
        end if;
        if name = 'audit' then
            alter table duly.audit enable trigger user;
        end if;
    end loop;
end $$
"""


class ChosenClock:
    """Lets a database that is open for many checks tell each the time of its own clock."""

    clock: VirtualClock

    def __call__(self) -> datetime:
        return self.clock.now()


@pytest.fixture
def sqlite_memory() -> Make:
    @asynccontextmanager
    async def make(clock: VirtualClock) -> AsyncIterator[Store]:
        async with opened(connect(":memory:", clock=clock).database) as tables:
            await migrate(tables)
            yield SqlStore(tables)

    return make


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Make:
    @asynccontextmanager
    async def make(clock: VirtualClock) -> AsyncIterator[Store]:
        path = with_tables(tmp_path / f"{uuid.uuid4().hex}.db")
        async with opened(connect(str(path), clock=clock).database) as tables:
            yield SqlStore(tables)

    return make


@pytest.fixture
async def postgres_with_all_features(migrated_dsns: tuple[str, str]) -> AsyncIterator[Make]:
    async with reopened(migrated_dsns[0], features=True) as make:
        yield make


@pytest.fixture
async def postgres_without_features(migrated_dsns: tuple[str, str]) -> AsyncIterator[Make]:
    async with reopened(migrated_dsns[1], features=False) as make:
        yield make


@pytest.fixture(scope="session")
def migrated_dsns(pg_cluster: Cluster | GivenServer) -> Iterator[tuple[str, str]]:
    """A database with all features, and one with none."""
    names = [f"duly_conformance_{uuid.uuid4().hex}" for _ in range(2)]
    featured, featureless = (at_database(pg_cluster.dsn, name) for name in names)
    with psycopg.connect(pg_cluster.dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(SQL("create database {}").format(Identifier(name)))
        finished(migrated(featured))
        finished(migrated(featureless, features=False))
        yield featured, featureless
        for name in names:
            drop(connection, name)


async def migrated(url: str, *, features: bool = True) -> None:
    async with opened(connect(url, features=features).database) as tables:
        await migrate(tables)


@asynccontextmanager
async def reopened(dsn: str, *, features: bool) -> AsyncIterator[Make]:
    """Makes stores of one database that stays open, each of them empty."""
    chosen = ChosenClock()

    @asynccontextmanager
    async def make(clock: VirtualClock) -> AsyncIterator[Store]:
        chosen.clock = clock
        emptying.execute(EMPTY)
        yield SqlStore(tables)

    tables = connect(dsn, clock=chosen, features=features).database
    with psycopg.connect(dsn, autocommit=True) as emptying:
        async with opened(tables):
            yield make


@asynccontextmanager
async def opened(tables: Database) -> AsyncIterator[Database]:
    await tables.open()
    try:
        yield tables
    finally:
        await tables.close()


@pytest.fixture(params=[by_awaiting, by_blocking])
def leave(request: pytest.FixtureRequest) -> Leave:
    """Run a block that writes a note and completes its job."""
    chosen: Leave = request.param
    return chosen


@pytest.fixture
def dsn(tmp_path: Path) -> str:
    """An SQLite file with the table of notes."""
    with closing(sqlite3.connect(tmp_path / "duly.db")) as file:
        file.execute(TABLE)
    return str(tmp_path / "duly.db")


@pytest.fixture
async def store(dsn: str, every_task_is_done: None) -> AsyncIterator[SqlStore]:
    store = connect(dsn)
    await store.open()
    await migrate(store.database)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def job(store: SqlStore) -> Claimed:
    await store.jobs.enqueue([call()])
    return await claimed(store)
