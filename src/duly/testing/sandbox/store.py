"""The store of a sandbox: in memory, and usable from every loop.

A store belongs to the loop it was opened on, and each store in memory has its own data. So there is
a single one, on a loop in a thread of its own; calls from other loops, such as a worker's or
pytest's, are passed to that loop.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from duly.connection import LazyStore, migrate_tables
from duly.errors import InvalidValue
from duly.model.access import Actor
from duly.store.connect import connect
from duly.store.store import NOUNS, SqlStore, Store
from duly.sync import Portal
from duly.testing.clock import VirtualClock

T = TypeVar("T")

MEMORY = ":memory:"


class SandboxStore(LazyStore):
    """The connection of an app in a sandbox: one store for all loops, until the sandbox ends."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(MEMORY)
        self._clock = clock
        self._portal = Portal("duly-sandbox")
        self._kept: SqlStore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        return MEMORY

    def open(self) -> None:
        self._kept, self._loop = self._portal.call(self._made)

    def shut(self) -> None:
        """Close the store; later callers get an error that the sandbox is over."""
        kept, self._kept, self._loop = self._kept, None, None
        try:
            if kept is not None:
                self._portal.call(kept.close)
        finally:
            self._portal.close()

    async def store(self) -> Store:
        kept, loop = self._there()
        return kept if asyncio.get_running_loop() is loop else cast(Store, StoreProxy(kept, loop))

    def call(self, work: Callable[[Store], Awaitable[T]], *, async_name: str) -> T:
        self._there()
        return super().call(work, async_name=async_name)

    def do(self, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` on the store and wait; allowed on an event loop, since it is quick."""
        kept, _ = self._there()
        return self._portal.call(lambda: work(kept))

    async def ado(self, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        kept, loop = self._there()
        return await _awaited(loop, work(kept))

    def afar(self) -> "StoreProxy":
        """Return a proxy of the store for code on the running loop."""
        return StoreProxy(*self._there())

    async def aclose(self) -> None:
        """Do nothing: the data stays until the sandbox ends, even if the app is closed."""

    def close(self, *, patience: float | None = None) -> None:
        pass

    async def _made(self) -> tuple[SqlStore, asyncio.AbstractEventLoop]:
        store = connect(MEMORY, clock=self._clock)
        await store.open()
        await migrate_tables(store)
        return store, asyncio.get_running_loop()

    def _there(self) -> tuple[SqlStore, asyncio.AbstractEventLoop]:
        if self._kept is None or self._loop is None:
            raise InvalidValue(
                "this sandbox is over, and its jobs and schedules with it: ask inside of `with`"
            )
        return self._kept, self._loop


class StoreProxy:
    """A proxy of a store that lives on another loop."""

    def __init__(self, store: SqlStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._heard = True
        for name in NOUNS:
            setattr(self, name, _NounProxy(getattr(store, name), loop))

    @property
    def actor(self) -> Actor | None:
        return self._store.actor

    def acting(self, actor: Actor, /) -> "StoreProxy":
        return StoreProxy(self._store.acting(actor), self._loop)

    def listen(self, listener: Callable[[str], None], /) -> None:
        """Add a listener, which is called on the currently running loop."""
        here = asyncio.get_running_loop()

        def tell(topic: str) -> None:
            if self._heard:
                with suppress(RuntimeError):  # the loop is closed: no listener is left
                    here.call_soon_threadsafe(listener, topic)

        self._loop.call_soon_threadsafe(self._store.listen, tell)

    def deafen(self) -> None:
        """Stop passing notifications to listeners."""
        self._heard = False

    async def open(self) -> None:
        """Do nothing: the store is open already."""

    async def close(self) -> None:
        """Do nothing: the sandbox closes the store."""


class _NounProxy:
    """A proxy of one group of store operations that runs them on the store's loop."""

    def __init__(self, noun: object, loop: asyncio.AbstractEventLoop) -> None:
        self._noun = noun
        self._loop = loop

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._noun, name)
        if inspect.iscoroutinefunction(method):
            return lambda *args, **kwargs: _awaited(self._loop, method(*args, **kwargs))
        return lambda *args, **kwargs: self._loop.call_soon_threadsafe(
            partial(method, *args, **kwargs)
        )


async def _awaited(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
