"""Server-sent events: pages that update themselves, and the stream of events of the API.

A page that several people watch is rendered once per round and sent to all of them. A round takes a
second, or longer if rendering is slow, so that watching costs at most a tenth of a core. Without
watchers nothing is done. A stream ends when the server stops, and after ``longest`` seconds where
we may not notice that it stops; browsers reconnect by themselves. Where the host has no streams
(WSGI), each connection gets the page once, and reconnecting is polling.

The event stream polls once a second for all listeners. A client that reconnects sends its last
event (``Last-Event-ID``) and gets the events after it. A client that is too slow gets a ``missed``
event with a count, and never slows down the others.
"""

import asyncio
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final
from weakref import WeakSet

import msgspec
from starlette.responses import Response, StreamingResponse

from duly.app.web_backend import WebBackend
from duly.clock import boottime, sleep
from duly.errors import Busy, DulyError, NotFound
from duly.model.access import User
from duly.policy.redaction import redacted
from duly.views.activity import ActivityWatch, Happening

ROUND_SECONDS = 1.0
SHARE = 10  # rendering takes at most one tenth of the time
QUIET_SECONDS = 15.0  # then a comment is sent, so that proxies keep the connection
MOST_STREAMS = 1_000
MOST_OF_ONE = 100  # streams of one user
MOUNTED_SECONDS = 20.0
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
POLLED_SECONDS = 3.0  # between two requests of a browser where nothing can be streamed
LONGEST_SECONDS = 3_600.0
RETRY: Final = b"retry: 1000\n\n"  # milliseconds until a browser reconnects
QUIET: Final = b": \n\n"
EVENTS: Final = "text/event-stream"
_LINE = re.compile("\r\n|\r|\n")  # line ends of an event stream

Make = Callable[[], Awaitable[str]]


class TooManyStreams(Busy):
    """No more streams can be opened."""


@dataclass(slots=True, eq=False)
class _WatchedPage:
    """One rendered page and its watchers."""

    make: Make
    watchers: set["asyncio.Queue[bytes]"] = field(default_factory=set)
    text: str = ""
    is_broken: bool = False

    @property
    def number(self) -> str:
        return blake2b(self.text.encode(), digest_size=8).hexdigest()

    @property
    def message(self) -> bytes:
        return event(self.text, number=self.number)


class LivePages:
    """Renders watched pages once per round, and counts open streams."""

    def __init__(self, *, longest: float = MOUNTED_SECONDS) -> None:
        self.longest = longest
        self._pages: dict[Hashable, _WatchedPage] = {}
        self._round: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._streams: Counter[str] = Counter()  # open streams by user

    def close(self) -> None:
        """End all streams."""
        self._closing.set()
        for page in self._pages.values():
            _tell(page, QUIET)

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    @property
    def streams(self) -> int:
        return self._streams.total()

    @property
    def is_polled(self) -> bool:
        """True if each request gets the page once, as a stream that ends."""
        return self.longest == 0

    async def once(self, make: Make, last: str | None) -> Response:
        """Return the page as one message; nothing if the browser has it (``Last-Event-ID``)."""
        try:
            page = _WatchedPage(make, text=await make())
            message = page.message if page.number != last else b""
        except NotFound:
            message = event("", kind="gone")
        retry = f"retry: {POLLED_SECONDS * 1000:.0f}\n".encode() if message else b""
        return Response(retry + message, media_type=EVENTS)

    def check_room(self, who: str) -> None:
        """Refuse one more stream if there are too many, in total or of this user."""
        if self.streams >= MOST_STREAMS:
            raise TooManyStreams("too many streams are open: close some pages and try again")
        if self._streams[who] >= MOST_OF_ONE:
            raise TooManyStreams(
                f"{who} has {MOST_OF_ONE} streams open: close some pages and try again"
            )

    @contextmanager
    def counted(self, who: str) -> Iterator[None]:
        """Count a stream while it is open."""
        self._streams[who] += 1
        try:
            yield
        finally:
            self._streams[who] -= 1
            if not self._streams[who]:
                del self._streams[who]

    def stream(self, key: Hashable, make: Make, *, who: str) -> StreamingResponse:
        """Return a stream that sends the page now and whenever it changes."""
        return events(self._watch(key, make, who))

    async def _watch(self, key: Hashable, make: Make, who: str) -> AsyncIterator[bytes]:
        page = self._pages.setdefault(key, _WatchedPage(make))
        news: asyncio.Queue[bytes] = asyncio.Queue(maxsize=2)
        if page.text:  # a reconnected watcher gets the current page
            news.put_nowait(page.message)
        page.watchers.add(news)
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._rounds())
        ends = boottime() + self.longest
        try:
            with self.counted(who):
                yield RETRY
                while not self._closing.is_set() and boottime() < ends:
                    yield await self._next(news)
        finally:
            page.watchers.discard(news)
            if not page.watchers:
                self._pages.pop(key, None)

    async def _next(self, news: "asyncio.Queue[bytes]") -> bytes:
        try:
            return await asyncio.wait_for(news.get(), min(QUIET_SECONDS, self.longest))
        except TimeoutError:
            return QUIET

    def notice_stop(self) -> None:
        """End all streams if uvicorn is stopping: it would wait for them."""
        if _uvicorn_is_stopping():
            self.close()

    async def _rounds(self) -> None:
        while self._pages and not self._closing.is_set():
            self.notice_stop()
            began = boottime()
            for page in list(self._pages.values()):
                await _refresh(page)
            spent = boottime() - began
            await sleep(max(ROUND_SECONDS, spent * SHARE))


def _uvicorn_is_stopping() -> bool:
    """Return whether uvicorn got a signal. A mounted application is not told, but can look."""
    servers = [getattr(signal.getsignal(one), "__self__", None) for one in STOP_SIGNALS]
    return any(getattr(server, "should_exit", False) is True for server in servers)


async def _refresh(page: _WatchedPage) -> None:
    try:
        text = await page.make()
    except NotFound:  # the browser reloads the page, which then says that the item is gone
        _tell(page, event("", kind="gone"))
        return
    except DulyError:  # the store is unavailable: the last version stays
        return
    except Exception as error:  # noqa: BLE001 - other pages continue
        if not page.is_broken:
            _report(error)
        page.is_broken = True
        return
    page.is_broken = False
    if text != page.text:
        page.text = text
        _tell(page, page.message)


def _report(error: Exception) -> None:
    """Send the error to the server's log, as asyncio does for a task that is never awaited."""
    said = "a page could not be kept up to date"
    asyncio.get_running_loop().call_exception_handler({"message": said, "exception": error})


def _tell(page: _WatchedPage, message: bytes) -> None:
    for watcher in page.watchers:
        if watcher.full():  # a slow reader only needs the newest version
            watcher.get_nowait()
        watcher.put_nowait(message)


def event(text: str, *, kind: str = "", number: str = "") -> bytes:
    """Return one message of an event stream."""
    head = (f"event: {kind}\n" if kind else "") + (f"id: {number}\n" if number else "")
    said = "".join(f"data: {line}\n" for line in _LINE.split(text))
    return f"{head}{said}\n".encode()


def events(stream: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(
        stream,
        media_type=EVENTS,
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


MOST_WAITING = 20  # rounds of events in a listener's queue


class EventStream:
    """Polls for new events once a second and sends them to all listeners."""

    def __init__(self, backend: WebBackend, live: LivePages) -> None:
        self._backend = backend
        self._live = live
        self._watch = ActivityWatch()
        # Weak: a client that disconnects before its stream starts never removes itself.
        self._listeners: WeakSet[_Listener] = WeakSet()
        self._rounds: asyncio.Task[None] | None = None

    async def listen(self, user: User, last: str | None) -> AsyncIterator[bytes]:
        """Return the stream of messages, from now on or after the client's last event."""
        heard = await self._backend.ask(self._watch.resume, last) if last else []
        listener = _Listener(user.tenant)
        listener.tell(_messages(heard, user.tenant), len(heard))
        self._listeners.add(listener)
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._look())
        return self._stream(listener, user.name)

    async def _stream(self, listener: "_Listener", who: str) -> AsyncIterator[bytes]:
        ends = boottime() + self._live.longest
        try:
            with self._live.counted(who):
                yield RETRY
                while not self._live.is_closing and boottime() < ends:
                    try:
                        yield await asyncio.wait_for(listener.news.get(), ROUND_SECONDS)
                    except TimeoutError:
                        yield QUIET
        finally:
            self._listeners.discard(listener)

    async def _look(self) -> None:
        """Poll, and encode the events once per tenant."""
        while self._listeners and not self._live.is_closing:
            self._live.notice_stop()
            try:
                found = await self._backend.ask(self._watch.look)
            except DulyError:  # the store is unavailable: its events are sent later
                found = []
            missed = self._watch.left_out
            for tenant in {listener.tenant for listener in self._listeners}:
                text = _messages(found, tenant, missed=missed)
                for listener in self._listeners:
                    if listener.tenant == tenant:
                        listener.tell(text, len(found) + missed)
            await sleep(ROUND_SECONDS)


class _Listener:
    def __init__(self, tenant: str | None) -> None:
        self.tenant = tenant
        self.news: asyncio.Queue[bytes] = asyncio.Queue(maxsize=MOST_WAITING)
        self._missed = 0

    def tell(self, text: bytes, count: int) -> None:
        """Queue the message; if the queue is full, count its events as missed."""
        if not text:
            return
        if self.news.full():
            self._missed += count
            return
        if self._missed:
            text, self._missed = _missed(self._missed) + text, 0
        self.news.put_nowait(text)


def _messages(found: Iterable[Happening], tenant: str | None, *, missed: int = 0) -> bytes:
    own = [one for one in found if tenant is None or one.tenant == tenant]
    return b"".join(map(_message, own)) + (_missed(missed) if missed else b"")


def _message(one: Happening) -> bytes:
    said = {
        "at": one.at,
        "job": one.job_id,
        "schedule": one.schedule or None,
        "task": one.task,
        "title": redacted(one.title),
        "queue": one.queue,
        "tenant": one.tenant or None,
        "outcome" if one.kind == "moment" else "state": one.state,
        "reason": redacted(one.reason),
        "due_at": one.due_at,
    }
    return event(msgspec.json.encode(said).decode(), kind=one.kind, number=one.id)


def _missed(count: int) -> bytes:
    return event(msgspec.json.encode({"count": count}).decode(), kind="missed")
