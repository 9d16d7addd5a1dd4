"""Stores as applications see them: opened, brought up to date, looked at."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from duly.app.configured import configured
from duly.errors import InvalidValue, SchemaMismatch
from duly.store.connect import connect, database, is_remote, place
from duly.store.database import Migration
from duly.store.migrate import Schema, check, migrate, require
from duly.store.protocol import Progress, Store
from duly.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What a store looks like from outside."""

    place: str
    schema: Schema
    progress: Progress | None = None  # None: it has no tables to ask

    @property
    def problem(self) -> str | None:
        """What needs somebody, in a sentence."""
        if self.schema.problem or self.progress is None:
            return self.schema.problem
        if self.progress.faulty:
            return (
                f"{len(self.progress.faulty)} schedules stand still until somebody mends them: "
                f"{', '.join(self.progress.faulty[:5])}"
            )
        return self.progress.problem


async def migrate_tables(store: SqlStore) -> list[Migration]:
    """Bring the tables of an open store to what this version works with."""
    return await migrate(store.database)


async def migrate_store(
    url: str, *, report: Callable[[Migration], None] | None = None
) -> list[Migration]:
    """Bring the tables of a store to what this version works with."""
    if url == ":memory:":
        raise InvalidValue("a store in memory is gone when it is closed; give the path of a file")
    there = database(url)
    await there.open()
    try:
        return await migrate(there, report=report)
    finally:
        await there.close()


async def outgrown(store: Store) -> str | None:
    """Why this version of duly must not use an open store any more, if it must not."""
    return (await check(store.database)).too_new if isinstance(store, SqlStore) else None


async def check_store(url: str) -> StoreReport:
    """Look at a store that is there; nothing is made or changed."""
    store = connect(url, create=False, writes=False)
    await store.open()
    try:
        schema = await check(store.database)
        progress = await store.upkeep.progress() if schema.ok else None
        return StoreReport(place(url), schema, progress)
    finally:
        await store.close()


async def open_store(url: str) -> Store:
    """A store that is there, open, and has the tables this version works with.

    One that is elsewhere is asked with the token of the settings.
    """
    if is_remote(url):
        return await _open_remote(url)
    store = connect(url, create=False)
    await store.open()
    try:
        await require(store.database)
    except BaseException as error:
        await store.close()
        if isinstance(error, SchemaMismatch) and str(error).endswith("duly db migrate"):
            raise SchemaMismatch(f"{error} --store {shlex.quote(place(url))}") from None
        raise
    return store


async def _open_remote(url: str) -> Store:
    from duly.app.remote.store import RemoteStore  # noqa: PLC0415 - most stores are near

    store = RemoteStore(url, token_file=configured().token_file)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store
