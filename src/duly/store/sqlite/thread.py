"""A thread that owns a connection, and the queue of its requests.

SQLite's calls block and a connection serves one call at a time, so each connection has a thread of
its own, and coroutines wait for its answers. A request stays in the queue until the thread is
certain to run it. A caller whose deadline passes withdraws a request that is still in the queue,
and knows that nothing was done; if the thread has taken the request, the outcome is unknown.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from threading import Condition, Thread, main_thread
from typing import Any, Protocol, TypeAlias, TypeVar

from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.store.sqlite.connection import sqlite3, told

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]


@dataclass(slots=True, eq=False)
class ThreadRequest:
    """A request to the thread, and its result."""

    work: Work[Any]
    answer: asyncio.Future[Any]
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
        self._changed = Condition()
        self._stopping = False
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._thread = Thread(target=self._live, name=f"duly-sqlite-{duty.name}")

    async def start(self) -> None:
        """Return when the connection is open, or raise the error that prevented it."""
        self._thread.start()
        await self._connected

    async def ask(self, work: Work[T], *, late: type[StoreUnavailable] = OutcomeUnknown) -> T:
        """Return the result of the work; raise ``late`` if it still runs at the deadline."""
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

    async def stop(self) -> None:
        """Finish all requests, close the connection, and end the thread."""
        if self._thread.ident is None:
            return
        with self._changed:
            self._stopping = True
            self._changed.notify()
        await self._ended.wait()
        self._thread.join()

    def _put(self, request: ThreadRequest) -> None:
        with self._changed:
            if self._stopping:
                raise StoreUnavailable("the database is being closed, and nothing was done")
            self._queue.append(request)
            self._changed.notify()

    def _withdraw(self, request: ThreadRequest) -> bool:
        with self._changed:
            if request.taken:
                return False
            request.taken = True
            self._queue.remove(request)
            return True

    def _expire(self, request: ThreadRequest, late: type[StoreUnavailable]) -> None:
        if request.answer.done():
            return
        waited = (
            f"no answer from the SQLite {self._duty.name} in {self._deadline.total_seconds():g} s"
        )
        if self._withdraw(request):
            request.answer.set_exception(StoreUnavailable(f"{waited}; nothing was done"))
        else:
            request.answer.set_exception(late(f"{waited}; the operation is still running"))

    # From here on, in the thread.

    def _live(self) -> None:
        try:
            connection = self._duty.connect()
        except Exception as error:  # noqa: BLE001 - it belongs to who opened the database
            self.tell(_settle, self._connected, told(error))
        else:
            self.tell(_settle, self._connected, None)
            self._work(connection)
            self._duty.close(connection)
        finally:
            self.tell(self._ended.set)

    def _work(self, connection: sqlite3.Connection) -> None:
        while True:
            with self._changed:
                if not self._queue and not self._stopping:
                    self._changed.wait(self._duty.pulse)
                asked, over = bool(self._queue), self._stopping or self._abandoned()
            if asked:
                self._serve(connection)
            elif over:
                return
            else:
                self._duty.look(connection)

    def _abandoned(self) -> bool:
        """Return whether no request can come any more: a program that forgot to close may end."""
        return self._loop.is_closed() or not main_thread().is_alive()

    def _serve(self, connection: sqlite3.Connection) -> None:
        requests: list[ThreadRequest] = []

        def take() -> list[ThreadRequest]:
            requests.extend(self._take())
            return requests

        try:
            self._duty.serve(connection, take)
        except Exception as error:  # noqa: BLE001 - it belongs to all who asked
            for request in requests or take():
                request.error = told(error)
        self.tell(_answer, requests)

    def _take(self) -> list[ThreadRequest]:
        with self._changed:
            count = min(self._duty.at_most, len(self._queue))
            requests = [self._queue.popleft() for _ in range(count)]
            for request in requests:
                request.taken = True
            return requests

    def tell(self, callback: Callable[..., object], *values: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and no caller waits
            self._loop.call_soon_threadsafe(callback, *values)


def _answer(requests: Sequence[ThreadRequest]) -> None:
    for request in requests:
        _settle(request.answer, request.error, request.result)


def _settle(answer: asyncio.Future[Any], error: Exception | None, result: object = None) -> None:
    if answer.done():  # cancelled, or past its deadline
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)
