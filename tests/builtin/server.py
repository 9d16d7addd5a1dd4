"""A web server for tests: it sends exactly the bytes that a test says, and keeps what it was asked.

In bytes, because what answers a request in the world does not always keep to the rules.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.infrastructure.proxy import accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]  # by their names in lower case
    body: bytes


@dataclass(slots=True)
class Server:
    """``answers[path]`` are bytes, or a function of the request that makes them."""

    answers: dict[str, bytes | Callable[[Asked], bytes]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    connections: int = 0
    talks: "set[asyncio.Task[None]]" = field(default_factory=set)

    def url(self, path: str = "/", *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if (talk := asyncio.current_task()) is not None:
            self.talks.add(talk)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
        assert len(headers) == len(lines), f"one of them twice: {lines}"
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split(" ")
        self.asked.append(Asked(method=method, path=path, headers=headers, body=body))
        answer = self.answers.get(path.partition("?")[0], answered(404))
        writer.write(answer(self.asked[-1]) if callable(answer) else answer)
        await writer.drain()
        if answer is SILENCE:
            await reader.read()  # until the other side has had enough


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server
    await accepted()
    if server.talks:
        await asyncio.wait(server.talks)


def answered(status: int, body: bytes = b"", **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("Content-Length", str(len(body)))
    lines = [f"HTTP/1.1 {status} Words", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def redirecting(location: str, status: int = 302) -> bytes:
    return answered(status, Location=location)


SILENCE = b""
