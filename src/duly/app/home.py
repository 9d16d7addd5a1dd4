"""Where the jobs of an app are kept: its store, opened once for every event loop that asks.

A store belongs to the loop it was opened on. A program may have several, one after the other (each
``asyncio.run``) or at once, and it may have none: then there is one in a thread. A store is closed
by ``aclose``, or with its loop.
"""

import asyncio
import atexit
import os
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import WeakSet

from duly.app.configured import configured
from duly.app.stores import migrate_tables, open_store
from duly.errors import DulyError, InvalidValue
from duly.settings.places import check_address
from duly.store.connect import connect, is_postgres, is_remote, place
from duly.store.protocol import Store
from duly.sync import Portal

T = TypeVar("T")

PATIENCE_SECONDS = 2.0

# What an operator said on a command line: it counts for the process and for those that it starts,
# whatever address the code has.
SAID_BY_OPERATOR = "DULY_STORE_OF_COMMAND"


def address(given: str | None) -> str:
    """The store that is meant: said by the operator, in code, in the settings; or duly.db here.

    A path is made absolute, from the folder of the settings' file if there is one: the store does
    not move when the process does.
    """
    url = os.environ.get(SAID_BY_OPERATOR) or given or configured().url
    if url == ":memory:":
        raise InvalidValue(
            "a store in memory is another one for every loop and process; give the path of a file"
        )
    check_address(url)
    return url if is_postgres(url) or is_remote(url) else place(url, folder=configured().folder)


async def open_or_make_store(url: str, *, migrate: bool = False, create: bool = True) -> Store:
    """An SQLite file is made and migrated; a PostgreSQL is its operator's, and must be ready.

    Unless its operator says otherwise, by ``migrate``. Without ``create``, a file that is not there
    is not made.
    """
    if url == ":memory:":
        raise InvalidValue(
            "the app is in a sandbox, where nothing runs by itself: box.travel() fires what is "
            "due, and box.run() runs what is ready"
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


class Home:
    def __init__(self, url: str | None) -> None:
        self._given = url
        self._url: str | None = None
        self._opened: dict[asyncio.AbstractEventLoop, _Opened] = {}
        self._portal = Portal("duly-sync")
        self._warned = False
        self.instead: Home | None = None  # who is asked in its place: a sandbox, while there is one
        _HOMES.add(self)

    @property
    def url(self) -> str:
        """The address of the store; from the first time that somebody asks, it stays."""
        if self.instead is not None:
            return self.instead.url
        if self._url is None:
            self._url = address(self._given)
        return self._url

    async def store(self) -> Store:
        """The store of the running loop."""
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

    def call(self, work: Callable[[Store], Awaitable[T]], *, twin: str) -> T:
        """Do something with the store and wait for it; ``twin`` is what could be awaited instead.

        On an event loop it holds up everything else there, which is worth a word, once.
        """
        if not self._warned and is_on_a_loop():
            self._warned = True
            warnings.warn(
                f"called on a running event loop, which stands still meanwhile: await {twin}",
                RuntimeWarning,
                stacklevel=_outside(),
            )

        async def at_home() -> T:
            return await work(await self.store())

        try:
            return self._portal.call(at_home)
        except DulyError as error:
            # What was done in the other thread is ours; their own line says more to the caller.
            raise error.with_traceback(None)  # noqa: B904 - it is the same

    async def aclose(self) -> None:
        """Close the store of the running loop; whoever asks again opens another."""
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is not None and opened.keeper is not None:
            await opened.keeper.aclose()

    def close(self, *, patience: float | None = None) -> None:
        """Close the store, and end the thread, of those who call without a loop."""
        self._portal.close(patience=patience)

    def _forget(self) -> None:
        """In a forked child: what is open is the parent's."""
        _PARENTS.append(self._opened)
        self._opened = {}


class Borrowed(Home):
    """A store that somebody else has opened, and will close."""

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
    """Close the store with its loop: a loop that ends closes the generators it has seen begin."""
    try:
        yield
    finally:
        await store.close()


def _outside() -> int:
    """How many calls above our caller the code is that is not ours."""
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


_HOMES: WeakSet[Home] = WeakSet()
# Kept for ever in a forked child: to collect them would be to close what the parent uses.
_PARENTS: list[dict[asyncio.AbstractEventLoop, _Opened]] = []


def _forget_all() -> None:
    for home in _HOMES:
        home._forget()  # noqa: SLF001


def _close_all() -> None:
    """An SQLite file is left tidy by a program that ends; one that cannot be closed is left."""
    for home in list(_HOMES):
        home.close(patience=PATIENCE_SECONDS)


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)
