"""An event loop in a thread of its own, for callers that have none.

The thread is started when it is first needed. It does not keep the program alive, and it does not
survive a fork, as no thread does: in the child, the next caller starts another one.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class Portal:
    """Runs coroutines on a loop in a thread; to be used from any thread but that one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        _PORTALS.add(self)

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run it on the portal's loop and wait; an interrupted caller cancels it."""
        loop = self._running_loop()
        if loop is _loop_here():
            raise RuntimeError(f"this is the loop of {self._name} itself: await it")
        future = asyncio.run_coroutine_threadsafe(work(), loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, *, patience: float | None = None) -> None:
        """End the loop and the thread. Coroutines that still run there are cancelled."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(patience)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_live, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop

    def _forget(self) -> None:
        """Forget the loop and its thread in a forked child: they belong to the parent."""
        if self._loop is not None:
            _PARENTS.append(self._loop)
        self._lock = threading.Lock()
        self._loop = self._thread = None


def _live(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


def _loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_PORTALS: WeakSet[Portal] = WeakSet()
# Never let go of: a loop that is collected here would take its parent's selector down with it.
_PARENTS: list[asyncio.AbstractEventLoop] = []


def _forget_all() -> None:
    for portal in _PORTALS:
        portal._forget()  # noqa: SLF001


os.register_at_fork(after_in_child=_forget_all)
