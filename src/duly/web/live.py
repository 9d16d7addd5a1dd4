"""Pages that stay up to date, and the stream of what happens.

However many people look at the same page, it is made once a round and sent to all of them; a round
takes a second, or longer if making the pages takes long, so that watching never costs more than a
tenth of a core. Nobody looks: nothing is done. A stream ends when the server stops, and by itself
after a while where we cannot know that it stops; browsers come back by themselves.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final
from weakref import WeakSet

import msgspec
from starlette.responses import StreamingResponse

from duly.app.acting import WebBackend
from duly.clock import boottime, sleep
from duly.errors import Busy, DulyError, NotFound
from duly.model.access import User
from duly.policy.redaction import redacted
from duly.views.activity import ActivityWatch, Happening

ROUND_SECONDS = 1.0
SHARE = 10  # of all time, at most one part in so many is spent on making pages
QUIET_SECONDS = 15.0  # after so long without news, a comment keeps proxies from hanging up
MOST_STREAMS = 1_000
MOST_OF_ONE = 100  # of these, those of one token or person
MOUNTED_SECONDS = 20.0
LONGEST_SECONDS = 3_600.0
RETRY: Final = b"retry: 1000\n\n"  # milliseconds until a browser comes back
QUIET: Final = b": \n\n"
_LINE = re.compile("\r\n|\r|\n")  # what ends a line of a stream

Make = Callable[[], Awaitable[str]]


class TooManyStreams(Busy):
    """So many look on that one more would be one too many."""


@dataclass(slots=True, eq=False)
class _WatchedPage:
    """One page as several people see it."""

    make: Make
    watchers: set["asyncio.Queue[bytes]"] = field(default_factory=set)
    text: str = ""
    is_broken: bool = False

    @property
    def message(self) -> bytes:
        return event(self.text, number=blake2b(self.text.encode(), digest_size=8).hexdigest())


class LivePages:
    def __init__(self, *, longest: float = MOUNTED_SECONDS) -> None:
        self.longest = longest
        self._sights: dict[Hashable, _WatchedPage] = {}
        self._round: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._streams: Counter[str] = Counter()  # open ones, by who listens

    def close(self) -> None:
        """End all streams."""
        self._closing.set()
        for sight in self._sights.values():
            _tell(sight, QUIET)

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    @property
    def streams(self) -> int:
        return self._streams.total()

    def check_room(self, who: str) -> None:
        """Refuse one more stream, to everybody or to who has many: others want to look too."""
        if self.streams >= MOST_STREAMS:
            raise TooManyStreams("too many streams are open: close some pages, and ask again")
        if self._streams[who] >= MOST_OF_ONE:
            raise TooManyStreams(
                f"{who} has {MOST_OF_ONE} streams open: close some pages, and ask again"
            )

    @contextmanager
    def counted(self, who: str) -> Iterator[None]:
        """Count a stream as long as it is open."""
        self._streams[who] += 1
        try:
            yield
        finally:
            self._streams[who] -= 1
            if not self._streams[who]:
                del self._streams[who]

    def stream(self, key: Hashable, make: Make, *, who: str) -> StreamingResponse:
        """A page, now and whenever it has changed."""
        return events(self._watch(key, make, who))

    async def _watch(self, key: Hashable, make: Make, who: str) -> AsyncIterator[bytes]:
        sight = self._sights.setdefault(key, _WatchedPage(make))
        news: asyncio.Queue[bytes] = asyncio.Queue(maxsize=2)
        if sight.text:  # what others were told while this one was away is not told again
            news.put_nowait(sight.message)
        sight.watchers.add(news)
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._rounds())
        ends = boottime() + self.longest
        try:
            with self.counted(who):
                yield RETRY
                while not self._closing.is_set() and boottime() < ends:
                    yield await self._next(news)
        finally:
            sight.watchers.discard(news)
            if not sight.watchers:
                self._sights.pop(key, None)

    async def _next(self, news: "asyncio.Queue[bytes]") -> bytes:
        try:
            return await asyncio.wait_for(news.get(), min(QUIET_SECONDS, self.longest))
        except TimeoutError:
            return QUIET

    async def _rounds(self) -> None:
        while self._sights and not self._closing.is_set():
            began = boottime()
            for sight in list(self._sights.values()):
                await _look(sight)
            spent = boottime() - began
            await sleep(max(ROUND_SECONDS, spent * SHARE))


async def _look(sight: _WatchedPage) -> None:
    try:
        text = await sight.make()
    except NotFound:  # whoever looks at it loads the page again, and is told that it is gone
        _tell(sight, event("", kind="gone"))
        return
    except DulyError:  # the store is away: what was seen stays
        return
    except Exception as error:  # noqa: BLE001 - who looks at other pages goes on seeing them
        if not sight.is_broken:
            _report(error)
        sight.is_broken = True
        return
    sight.is_broken = False
    if text != sight.text:
        sight.text = text
        _tell(sight, sight.message)


def _report(error: Exception) -> None:
    """As what goes wrong in a task that nobody waits for: to the log of the server."""
    said = "a page could not be kept up to date"
    asyncio.get_running_loop().call_exception_handler({"message": said, "exception": error})


def _tell(sight: _WatchedPage, message: bytes) -> None:
    for watcher in sight.watchers:
        if watcher.full():  # somebody reads slowly: only the newest is worth sending
            watcher.get_nowait()
        watcher.put_nowait(message)


def event(text: str, *, kind: str = "", number: str = "") -> bytes:
    """One message of a stream."""
    head = (f"event: {kind}\n" if kind else "") + (f"id: {number}\n" if number else "")
    said = "".join(f"data: {line}\n" for line in _LINE.split(text))
    return f"{head}{said}\n".encode()


def events(stream: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(
        stream,
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


MOST_WAITING = 20  # rounds of news that one listener has not taken yet


class EventStream:
    def __init__(self, backend: WebBackend, live: LivePages) -> None:
        self._backend = backend
        self._live = live
        self._watch = ActivityWatch()
        # Weakly: who hangs up before their stream has begun never ends it.
        self._listeners: WeakSet[_Listener] = WeakSet()
        self._rounds: asyncio.Task[None] | None = None

    async def listen(self, user: User, last: str | None) -> AsyncIterator[bytes]:
        """Messages, from now on or from behind the last one that was heard."""
        heard = await self._backend.ask(self._watch.resume, last) if last else []
        listener = _Listener(user.tenant)
        listener.tell(_told(heard, user.tenant), len(heard))
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
        """What is told to many is written once."""
        while self._listeners and not self._live.is_closing:
            try:
                found = await self._backend.ask(self._watch.look)
            except DulyError:  # the store is away: what happens meanwhile is told later
                found = []
            missed = self._watch.left_out
            for tenant in {listener.tenant for listener in self._listeners}:
                text = _told(found, tenant, missed=missed)
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
        """Put it where it is taken from; who is too slow is told how much they missed."""
        if not text:
            return
        if self.news.full():
            self._missed += count
            return
        if self._missed:
            text, self._missed = _missed(self._missed) + text, 0
        self.news.put_nowait(text)


def _told(found: Iterable[Happening], tenant: str | None, *, missed: int = 0) -> bytes:
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
