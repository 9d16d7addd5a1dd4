"""The stream of what happens: moments decided, jobs begun and ended, for whoever listens.

One look a second tells all listeners. Whoever comes back says what they heard last
(``Last-Event-ID``) and is told what came after it; whoever is too slow is told that they missed
something, and never slows the others down.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

import msgspec

from duly.app.front import Lobby
from duly.app.happenings import Happening, Watch
from duly.clock import boottime, sleep
from duly.errors import DulyError
from duly.policy.redaction import redacted
from duly.web.live import QUIET, RETRY_MS, ROUND_SECONDS, Live, event

MOST_WAITING = 2_000  # messages that one listener has not taken yet


class News:
    def __init__(self, lobby: Lobby, live: Live) -> None:
        self._lobby = lobby
        self._live = live
        self._watch = Watch()
        self._listeners: dict[asyncio.Queue[str], str | None] = {}
        self._rounds: asyncio.Task[None] | None = None

    async def listen(self, tenant: str | None, last: str | None) -> AsyncIterator[str]:
        """Messages, from now on or from behind the last one that was heard."""
        heard = await self._lobby.ask(self._watch.resume, last) if last else []
        news: asyncio.Queue[str] = asyncio.Queue(maxsize=MOST_WAITING)
        for one in _of(heard, tenant):
            news.put_nowait(_message(one))
        self._listeners[news] = tenant
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._look())
        return self._told(news)

    async def _told(self, news: "asyncio.Queue[str]") -> AsyncIterator[str]:
        ends = boottime() + self._live.longest
        self._live.streams += 1
        yield f"retry: {RETRY_MS}\n\n"
        try:
            while not self._live.is_closing and boottime() < ends:
                try:
                    yield await asyncio.wait_for(news.get(), ROUND_SECONDS)
                except TimeoutError:
                    yield QUIET
        finally:
            self._live.streams -= 1
            self._listeners.pop(news, None)

    async def _look(self) -> None:
        while self._listeners and not self._live.is_closing:
            try:
                found = await self._lobby.ask(self._watch.look)
            except DulyError:  # the store is away: what happens meanwhile is told later
                found = []
            for listener, tenant in list(self._listeners.items()):
                self._tell(listener, _of(found, tenant))
            await sleep(ROUND_SECONDS)

    def _tell(self, listener: "asyncio.Queue[str]", found: "Iterable[Happening]") -> None:
        messages = [_message(one) for one in found]
        if self._watch.left_out:
            messages.append(_missed(self._watch.left_out))
        room = MOST_WAITING - listener.qsize() - 1
        if len(messages) > room:
            messages = [*messages[:room], _missed(len(messages) - room)] if room > 0 else []
        for message in messages:
            listener.put_nowait(message)


def _of(found: "Iterable[Happening]", tenant: str | None) -> "list[Happening]":
    return [one for one in found if tenant is None or one.tenant == tenant]


def _message(one: Happening) -> str:
    said = {
        "at": one.at,
        "job": one.job_id,
        "schedule": one.schedule or None,
        "task": one.task,
        "title": one.title,
        "queue": one.queue,
        "tenant": one.tenant or None,
        "outcome" if one.kind == "moment" else "state": one.state,
        "reason": redacted(one.reason),
        "due_at": one.due_at,
    }
    return event(msgspec.json.encode(said).decode(), kind=one.kind, number=one.id)


def _missed(count: int) -> str:
    return event(msgspec.json.encode({"count": count}).decode(), kind="missed")
