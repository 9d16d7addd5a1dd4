"""The connection of an app to its store: one open store per event loop.

A store belongs to the loop it was opened on. A program may have several loops, one after the other
(each ``asyncio.run``) or at once, or none: then a thread runs one. A store is closed by ``aclose``,
or with its loop.
"""

import asyncio
import atexit
import os
import shlex
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from duly.errors import DulyError, InvalidValue, SchemaMismatch
from duly.settings import Settings, load
from duly.settings.kinds import check_address
from duly.settings.loading import SettingsFile, framework
from duly.settings.settings import DEFAULT
from duly.store.caller_connection import Verb, Work, awrite_on, write_on
from duly.store.connect import connect, is_postgres, is_remote, place
from duly.store.database import Dialect, Migration
from duly.store.maintenance import Retention, StoreProgress
from duly.store.migrate import Schema, check, migrate, migrations, require
from duly.store.store import SqlStore, Store
from duly.sync import Portal

T = TypeVar("T")

PATIENCE_SECONDS = 2.0

# The --store of a command line: it overrides the URL in code, in this process and its children.
SAID_BY_OPERATOR = "DULY_STORE_OF_COMMAND"


def address(given: str | None) -> str:
    """Return the database URL: from the command line, the code, the settings, or duly.db here.

    A path is made absolute, relative to the settings file if there is one, so that it stays valid
    when the process changes its directory.
    """
    url = os.environ.get(SAID_BY_OPERATOR) or given or configured().url
    if url == ":memory:":
        raise InvalidValue(
            "an in-memory database would be a different one for every event loop and process; "
            "give the path of a file"
        )
    check_address(url)
    return url if is_postgres(url) or is_remote(url) else place(url, folder=configured().folder)


async def open_or_make_store(url: str, *, migrate: bool = False, create: bool = True) -> Store:
    """Open a store: create and migrate a SQLite file; a PostgreSQL database must be migrated.

    ``migrate`` also migrates PostgreSQL. Without ``create``, a missing file is not created.
    """
    if url == ":memory:":
        raise InvalidValue(
            "the app is in a sandbox, where nothing runs on its own: box.travel() fires due "
            "schedules, and box.run() runs ready jobs"
        )
    if is_remote(url) or (is_postgres(url) and not migrate):
        return await open_store(url)
    store = connect(url, create=create)
    await store.open()
    try:
        await migrate_tables(store)
    except BaseException:
        await store.close()
        raise
    return store


class LazyStore:
    """Opens the store of each event loop on first use; sync calls use a thread with a loop."""

    def __init__(self, url: str | None) -> None:
        self._given = url
        self._url: str | None = None
        self._opened: dict[asyncio.AbstractEventLoop, _Opened] = {}
        self._portal = Portal("duly-sync")
        self._warned = False
        self.instead: LazyStore | None = None  # a sandbox's store, while there is one
        _LAZY_STORES.add(self)

    @property
    def url(self) -> str:
        """The database URL. It does not change after the first use."""
        if self.instead is not None:
            return self.instead.url
        if self._url is None:
            self._url = address(self._given)
        return self._url

    async def store(self) -> Store:
        """Return the store of the running loop; open it if needed."""
        if self.instead is not None:
            return await self.instead.store()
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None:
            for other in [other for other in self._opened if other.is_closed()]:
                del self._opened[other]
            opened = self._opened[loop] = _Opened()
        if opened.store is None:
            async with opened.lock:
                if opened.store is None:
                    await opened.open(self.url)
        assert opened.store is not None  # noqa: S101 - opened, or an error
        return opened.store

    def call(self, work: Callable[[Store], Awaitable[T]], *, async_name: str) -> T:
        """Run ``work`` on the store and wait; ``async_name`` is the async variant to recommend.

        On a running event loop this blocks the loop: warn once.
        """
        if not self._warned and is_on_a_loop():
            self._warned = True
            warnings.warn(
                f"called on a running event loop, which it blocks: use await {async_name}",
                RuntimeWarning,
                stacklevel=_outside(),
            )

        async def at_home() -> T:
            return await work(await self.store())

        try:
            return self._portal.call(at_home)
        except DulyError as error:
            # Without the frames of the other thread: the caller's line says more.
            raise error.with_traceback(None)  # noqa: B904 - the same error

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop of sync calls and wait for it."""
        return self._portal.call(work)

    async def aclose(self) -> None:
        """Close the store of the running loop; the next use opens another."""
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is not None and opened.keeper is not None:
            await opened.keeper.aclose()

    def close(self, *, patience: float | None = None) -> None:
        """Close the store of sync calls, and end its thread."""
        self._portal.close(patience=patience)

    def _forget(self) -> None:
        """Forget the open stores, in a forked child: they belong to the parent."""
        _PARENTS.append(self._opened)
        self._opened = {}


class OpenStore(LazyStore):
    """A store that the caller opened and closes."""

    def __init__(self, store: Store) -> None:
        super().__init__(None)
        self._borrowed = store

    async def store(self) -> Store:
        return self._borrowed


@dataclass(slots=True, eq=False)
class _Opened:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    store: Store | None = None
    keeper: AsyncGenerator[None, None] | None = None

    async def open(self, url: str) -> None:
        store = await open_or_make_store(url)
        self.keeper = _kept(store)
        await anext(self.keeper)
        self.store = store


async def _kept(store: Store) -> AsyncGenerator[None, None]:
    """Close the store with its loop: a loop that ends closes its async generators."""
    try:
        yield
    finally:
        await store.close()


def _outside() -> int:
    """Return the stack level of the first caller outside duly."""
    level, frame = 0, sys._getframe(1)  # noqa: SLF001
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("duly."):
        level, frame = level + 1, frame.f_back
    return level + 1


def is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_LAZY_STORES: WeakSet[LazyStore] = WeakSet()
# Kept forever in a forked child: garbage collection would close the parent's connections.
_PARENTS: list[dict[asyncio.AbstractEventLoop, _Opened]] = []


def _forget_all() -> None:
    for lazy in _LAZY_STORES:
        lazy._forget()  # noqa: SLF001


def _close_all() -> None:
    """Close all stores when the program exits; give up after a short wait."""
    for lazy in list(_LAZY_STORES):
        lazy.close(patience=PATIENCE_SECONDS)


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The result of ``check_store``."""

    place: str
    schema: Schema
    progress: StoreProgress | None = None  # None: there are no tables

    @property
    def problem(self) -> str | None:
        """The problem in a sentence, if there is one."""
        if self.schema.problem or self.progress is None:
            return self.schema.problem
        if self.progress.faulty:
            return (
                f"{len(self.progress.faulty)} faulty schedules do not fire until repaired: "
                f"{', '.join(self.progress.faulty[:5])}"
            )
        return self.progress.problem


async def migrate_tables(store: SqlStore) -> list[Migration]:
    """Migrate the tables of an open store to this version."""
    return await migrate(store.database)


async def migrate_store(
    url: str, *, report: Callable[[Migration], None] | None = None
) -> list[Migration]:
    """Migrate the tables of a store to this version."""
    if url == ":memory:":
        raise InvalidValue(
            "an in-memory database is lost when it is closed; give the path of a file"
        )
    there = connect(url).database
    await there.open()
    try:
        return await migrate(there, report=report)
    finally:
        await there.close()


def versions() -> list[str]:
    """Return the versions of Python, the tables, SQLite and the driver for PostgreSQL.

    The last line is the store, if one is configured.
    """
    import platform  # noqa: PLC0415 - rarely needed
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    from duly.store.sqlite.connection import sqlite3  # noqa: PLC0415

    try:
        psycopg = f"psycopg {version('psycopg')}"
    except PackageNotFoundError:
        psycopg = "no psycopg"
    tables = max(one.number for one in migrations(Dialect("sqlite")))
    found = [
        f"Python {platform.python_version()}",
        f"tables {tables}",
        f"SQLite {sqlite3.sqlite_version}",
        psycopg,
    ]
    with suppress(DulyError):  # the version can be shown whatever the settings say
        settings = configured()
        if settings.origin("url") != DEFAULT:
            found.append(f"store {settings.shown('url')}")
    return found


async def outgrown(store: Store) -> str | None:
    """Return why this version of duly must no longer use an open store, if so."""
    return (await check(store.database)).too_new if isinstance(store, SqlStore) else None


async def check_store(url: str) -> StoreReport:
    """Check an existing store; nothing is created or changed."""
    store = connect(url, create=False, writes=False)
    await store.open()
    try:
        schema = await check(store.database)
        progress = await store.maintenance.progress() if schema.ok else None
        return StoreReport(place(url), schema, progress)
    finally:
        await store.close()


async def open_store(url: str) -> Store:
    """Open an existing store whose tables fit this version.

    A remote server is called with the token of the settings.
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
    from duly.remote.store import RemoteStore  # noqa: PLC0415 - rarely needed

    store = RemoteStore(url, token_file=configured().token_file)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store


_PREFIX = "DULY_"


def configured() -> Settings:
    said = sorted(item for item in os.environ.items() if item[0].startswith(_PREFIX))
    return _read(tuple(said), Path.cwd(), framework())


def retention_of(settings: Settings) -> Retention:
    return Retention(
        history=settings.keep_history, fires=settings.keep_fires, failed=settings.keep_failed
    )


@lru_cache(maxsize=8)
def _read(
    said: tuple[tuple[str, str], ...],
    folder: Path,
    _framework: SettingsFile | None,  # for the cache: ``load`` asks for it itself
) -> Settings:
    return load({}, dict(said), folder)


def write(lazy: LazyStore, work: Work[T], verb: Verb, *, connection: object | None) -> T:
    """Run ``work``, on the caller's ``connection`` if given; ``verb`` names the async variant."""
    if connection is None:
        return lazy.call(work, async_name=f"{verb.owner}.a{verb.name}()")
    with told_which_database(lazy, connection):
        return write_on(connection, work, verb)


async def awrite(lazy: LazyStore, work: Work[T], verb: Verb, *, connection: object | None) -> T:
    if connection is None:
        return await work(await lazy.store())
    with told_which_database(lazy, connection):
        return await awrite_on(connection, work, verb)


@contextmanager
def told_which_database(lazy: LazyStore, connection: object) -> Iterator[None]:
    """Explain a connection to a database without our tables: name the one that has them."""
    try:
        yield
    except SchemaMismatch:
        kind = "session" if "session" in type(connection).__name__.lower() else "connection"
        raise SchemaMismatch(
            f"the {kind}'s database has no duly tables; duly uses {place(lazy.url)}"
        ) from None
