"""A thread that owns a connection, and the queue of its requests.

SQLite's calls block and a connection serves one call at a time, so each connection has a thread of
its own, and coroutines wait for its answers. A request stays in the queue until the thread is
certain to run it. A caller whose deadline passes withdraws a request that is still in the queue,
and knows that nothing was done; if the thread has taken the request, the outcome is unknown.

A caller without an event loop blocks anyway, so it serves the queue itself, in its own thread, and
saves the switches between threads: they took longer than the insert of a job. Callers that come
meanwhile wait for the connection, and the next one serves all their requests, in one commit.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from threading import Condition, RLock, Thread, get_ident, main_thread
from threading import enumerate as threads
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

from duly.clock import is_on_a_loop
from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.store.sqlite.connection import sqlite3, told

NAME: Final = "duly-sqlite"
INTERRUPTED: Final = "the thread that wrote to SQLite was interrupted"

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]


@dataclass(slots=True, eq=False)
class ThreadRequest:
    """A request to the thread, and its result."""

    work: Work[Any]
    answer: asyncio.Future[Any] | None  # None: its caller blocks
    taken: bool = False
    result: Any = None
    error: Exception | None = None

    def carry_out(self, connection: sqlite3.Connection) -> None:
        self.result = self.error = None
        try:
            self.result = self.work(connection)
        except Exception as error:  # noqa: BLE001 - it belongs to who asked
            self.error = told(error)


Take: TypeAlias = Callable[[], list[ThreadRequest]]


class Duty(Protocol):
    """The work of a thread on its connection; all methods are called in the thread."""

    name: str
    at_most: int  # how many requests it takes at once
    pulse: float  # seconds between two looks around when nothing is asked

    def connect(self) -> sqlite3.Connection: ...

    def serve(self, connection: sqlite3.Connection, take: Take, /) -> None:
        """Take requests and settle them; an error raised here is the answer to all of them."""
        ...

    def look(self, connection: sqlite3.Connection, /) -> None: ...

    def close(self, connection: sqlite3.Connection, /) -> None: ...


class ConnectionThread:
    def __init__(self, duty: Duty, deadline: timedelta) -> None:
        self._duty = duty
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._queue: deque[ThreadRequest] = deque()
        # A signal cannot come between taking this lock and entering its block; it could at a
        # Condition, which is written in Python, and the lock would be held for ever.
        self._queue_lock = RLock()
        self._changed = Condition(self._queue_lock)
        # Held by the thread that uses the connection; one that does not hold it cannot release it.
        self._connection_lock = RLock()
        self._serving: int | None = None  # the thread that serves requests
        self._stopping = False
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._thread = Thread(target=self._live, name=f"{NAME}-{duty.name}")

    async def start(self) -> None:
        """Return when the connection is open, or raise the error that prevented it."""
        self._thread.start()
        await self._connected

    async def ask(self, work: Work[T], *, late: type[StoreUnavailable] = OutcomeUnknown) -> T:
        """Return the result of the work; raise ``late`` if it still runs at the deadline.

        Without a running event loop, this never waits for one, and blocks.
        """
        if not is_on_a_loop():
            return self._ask_here(work, late)
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError(
                "a database belongs to the event loop it was opened on: open another"
            )
        answer: asyncio.Future[T] = self._loop.create_future()
        request = ThreadRequest(work, answer)
        self._put(request)
        timer = self._loop.call_later(self._deadline.total_seconds(), self._expire, request, late)
        try:
            return await answer
        finally:
            timer.cancel()
            self._withdraw(request)

    def _ask_here(self, work: Work[T], late: type[StoreUnavailable]) -> T:
        """Serve the queue in this thread until another thread or this one has done the work."""
        if self._serving == get_ident():
            raise StoreUnavailable(
                "a signal handler asked for a write while its thread was writing to SQLite; "
                "nothing was done: set a flag in the handler, and write afterwards"
            )
        request = ThreadRequest(work, None)
        self._put(request, wake=False)
        try:
            # Half of the deadline: the other half is for the file's lock, which comes after it.
            if not self._connection_lock.acquire(timeout=self._deadline.total_seconds() / 2):
                raise self._late(request, late)
            while not request.taken:
                self._serve()
        finally:  # also if a signal has interrupted this thread, with or without the lock
            try:  # noqa: SIM105 - a call before the release could be interrupted
                self._connection_lock.release()
            except RuntimeError:
                pass
            self._withdraw(request)
        if request.error is not None:
            raise request.error
        return cast(T, request.result)

    async def stop(self) -> None:
        """Finish all requests, close the connection, and end the thread."""
        if self._thread.ident is None:
            return
        with self._queue_lock:
            self._stopping = True
            self._changed.notify()
        await self._ended.wait()
        self._thread.join()

    def _put(self, request: ThreadRequest, *, wake: bool = True) -> None:
        with self._queue_lock:
            if self._stopping:
                raise StoreUnavailable("the database is being closed, and nothing was done")
            self._queue.append(request)
            if wake:
                self._changed.notify()

    def _withdraw(self, request: ThreadRequest) -> bool:
        with self._queue_lock:
            if request.taken:
                return False
            request.taken = True
            self._queue.remove(request)
            return True

    def _expire(self, request: ThreadRequest, late: type[StoreUnavailable]) -> None:
        if request.answer is not None and not request.answer.done():
            request.answer.set_exception(self._late(request, late))

    def _late(self, request: ThreadRequest, late: type[StoreUnavailable]) -> StoreUnavailable:
        """Withdraw a request whose deadline has passed; return the error for its caller."""
        waited = (
            f"no answer from the SQLite {self._duty.name} in {self._deadline.total_seconds():g} s"
        )
        if self._withdraw(request):
            return StoreUnavailable(f"{waited}; nothing was done")
        return late(f"{waited}; the operation is still running")

    # From here on, in the thread; ``_serve`` also in a thread that asks and holds the lock.

    def _live(self) -> None:
        try:
            self._connection = self._duty.connect()
        except Exception as error:  # noqa: BLE001 - it belongs to who opened the database
            self.tell(_settle, self._connected, told(error))
        else:
            self.tell(_settle, self._connected, None)
            self._work()
            with self._connection_lock:
                self._duty.close(self._connection)
        finally:
            self.tell(self._ended.set)

    def _work(self) -> None:
        while True:
            with self._queue_lock:
                if not self._queue and not self._stopping:
                    self._changed.wait(self._duty.pulse)
                over = self._stopping or self._abandoned()
            with self._connection_lock:
                if self._queue:
                    self._serve()
                elif over:
                    return
                else:
                    self._duty.look(self._connection)

    def _abandoned(self) -> bool:
        """Return whether no request can come any more: a program that forgot to close may end."""
        is_over = not main_thread().is_alive() and not any(map(_may_ask, threads()))
        return is_over or self._loop.is_closed()

    def _serve(self) -> None:
        requests: list[ThreadRequest] = []

        def take() -> list[ThreadRequest]:
            self._take(requests)
            return requests

        self._serving = get_ident()
        try:
            self._duty.serve(self._connection, take)
        except Exception as error:  # noqa: BLE001 - it belongs to all who asked
            for request in requests or take():
                request.error = told(error)
        except BaseException:  # a signal, in the thread of a caller that blocks
            for request in requests:
                request.error = OutcomeUnknown(INTERRUPTED)
            raise
        finally:
            self._serving = None
            self._answer(requests)

    def _take(self, requests: list[ThreadRequest]) -> None:
        with self._queue_lock:
            while self._queue and len(requests) < self._duty.at_most:
                request = self._queue[0]
                request.error = OutcomeUnknown(INTERRUPTED)  # until it is carried out
                request.taken = True
                requests.append(request)
                self._queue.popleft()

    def _answer(self, requests: Sequence[ThreadRequest]) -> None:
        if any(request.answer is not None for request in requests):
            self.tell(_settle_all, requests)

    def tell(self, callback: Callable[..., object], *values: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and no caller waits
            self._loop.call_soon_threadsafe(callback, *values)


def _may_ask(thread: Thread) -> bool:
    """Return whether the program waits for the end of this thread, which may ask until then."""
    is_ours = thread.name.startswith(NAME)
    return not (thread is main_thread() or thread.daemon or is_ours)


def _settle_all(requests: Sequence[ThreadRequest]) -> None:
    for request in requests:
        if request.answer is not None:
            _settle(request.answer, request.error, request.result)


def _settle(answer: asyncio.Future[Any], error: Exception | None, result: object = None) -> None:
    if answer.done():  # cancelled, or past its deadline
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)
