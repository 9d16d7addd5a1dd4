"""A duly that is elsewhere, as small as can be: HTTP in threads, the store on a loop of its own."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

from duly.app import Store, open_store
from duly.errors import DulyError, NotFound, NotSignedIn
from duly.model.access import PREFIX, Actor, NewToken, Role, User, hash_of
from duly.remote.calls import answer, greeting
from duly.remote.http import MEDIA_TYPE, problem_of

T = TypeVar("T")
Interrupt = Callable[["Handler"], bool]  # whether it has answered in our place


@dataclass
class Elsewhere:
    """Where it is, and what somebody asked it: the path and whether it was a new connection."""

    url: str
    store: Store
    loop: asyncio.AbstractEventLoop
    asked: list[str] = field(default_factory=list)
    connections: set[int] = field(default_factory=set)
    interrupt: Interrupt | None = None

    def do(self, work: Callable[[Store], Awaitable[T]]) -> T:
        async def done() -> T:
            return await work(self.store)

        future: Future[T] = asyncio.run_coroutine_threadsafe(done(), self.loop)
        return future.result(20)

    def token(self, name: str, role: Role, *, tenant: str | None = None) -> str:
        """The secret of a new token."""
        secret = f"{PREFIX}{name}-{role}"
        wanted = NewToken(name=name, role=role, hash=hash_of(secret), tenant=tenant)
        self.do(lambda store: store.acting(Actor("root", "command")).access.create_token(wanted))
        return secret


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    there: Elsewhere

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.there.asked.append(self.path)
        self.there.connections.add(id(self.connection))
        if self.there.interrupt is not None and self.there.interrupt(self):
            return
        try:
            self.reply(200, "application/json", self._answered(body))
        except DulyError as error:
            problem = problem_of(error)
            self.reply(problem.status, MEDIA_TYPE, json.dumps(problem.as_json()).encode())

    def _answered(self, body: bytes) -> bytes:
        user = self._user()
        match self.path.removeprefix("/below").strip("/").split("/"):
            case ["api", "v1", "store"]:
                return greeting()
            case ["api", "v1", "store", noun, verb]:
                acting = self.there.store.acting(Actor(user.name, "token"))
                return self.there.do(lambda _: answer(acting, noun, verb, body, user=user))
            case _:
                raise NotFound(self.path)

    def _user(self) -> User:
        secret = self.headers.get("Authorization", "").removeprefix("Bearer ")
        token = self.there.do(lambda store: store.access.find_token(hash_of(secret)))
        if token is None:
            raise NotSignedIn("there is no such token")
        return User(token.name, token.role, token.tenant)

    def reply(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - theirs
        """Nobody wants to know."""


@contextmanager
def elsewhere(store_url: str) -> Iterator[Elsewhere]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    store = asyncio.run_coroutine_threadsafe(open_store(store_url), loop).result(20)

    class HandlerHere(Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), HandlerHere)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    there = Elsewhere(f"http://127.0.0.1:{server.server_port}", store, loop)
    HandlerHere.there = there
    try:
        yield there
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
        asyncio.run_coroutine_threadsafe(store.close(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
