"""The stream of what happens: moments decided, jobs begun and ended, for whoever listens.

One look a second tells all listeners. Whoever comes back says what they heard last
(``Last-Event-ID``) and is told what came after it; whoever is too slow is told that they missed
something, and never slows the others down.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from weakref import WeakSet

import msgspec

from duly.app.acting import Lobby
from duly.clock import boottime, sleep
from duly.errors import DulyError
from duly.model.access import User
from duly.policy.redaction import redacted
from duly.views.happenings import Happening, Watch
from duly.web.live import QUIET, RETRY, ROUND_SECONDS, Live, event

MOST_WAITING = 20  # rounds of news that one listener has not taken yet


class News:
    def __init__(self, lobby: Lobby, live: Live) -> None:
        self._lobby = lobby
        self._live = live
        self._watch = Watch()
        # Weakly: who hangs up before their stream has begun never ends it.
        self._listeners: WeakSet[_Listener] = WeakSet()
        self._rounds: asyncio.Task[None] | None = None

    async def listen(self, user: User, last: str | None) -> AsyncIterator[bytes]:
        """Messages, from now on or from behind the last one that was heard."""
        heard = await self._lobby.ask(self._watch.resume, last) if last else []
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
                found = await self._lobby.ask(self._watch.look)
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
