"""One request and its answer over one connection: as much of HTTP/1.1 as a caller needs.

The connection is made to an address that somebody else has chosen, while certificate and Host are
those of the name. Proxies that the environment names are not asked: they would resolve the name
anew. Certificates are always verified. What the other side sends is bounded, however it is sent.
"""

import asyncio
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from duly.builtin.target import Target

LARGEST: Final = 1_000_000  # bytes of a body that are read
_LARGEST_HEAD: Final = 64 * 1024
_MOST_INTERIM: Final = 10  # answers that say that the answer will come
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: [^\r\n]*)?")
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SIZE = re.compile(rb"[0-9a-fA-F]{1,12}")
_BODILESS: Final = (204, 304)


class HttpFailed(Exception):
    """A request has not come to the answer that was expected; it may do so another time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    method: str
    target: Target
    headers: Mapping[str, str]
    body: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]  # by their names in lower case
    body: bytes  # at most LARGEST


@dataclass(frozen=True, slots=True)
class HttpConnection:
    """A connection on which nothing has been said yet."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def connected(target: Target, address: str, *, tls: ssl.SSLContext | None) -> HttpConnection:
    """A line to the address, on which the target's name is spoken; or an ``OSError``."""
    name = None if tls is None else target.host
    return HttpConnection(
        *await asyncio.open_connection(
            address, target.port, limit=_LARGEST_HEAD, ssl=tls, server_hostname=name
        )
    )


async def asked(request: HttpRequest, line: HttpConnection) -> HttpResponse:
    """The answer; an ``OSError`` or ``HttpFailed`` if there is none. The line is closed."""
    try:
        line.writer.write(_head(request) + (request.body or b""))
        with suppress(ConnectionError):  # it may have answered before it has read everything
            await line.writer.drain()
        return await _answer(line.reader, request.method)
    except asyncio.IncompleteReadError:
        raise HttpFailed("the connection was closed before the answer was complete") from None
    except asyncio.LimitOverrunError:
        raise HttpFailed(f"the answer has a line of more than {_LARGEST_HEAD:,} bytes") from None
    finally:
        # Not close(): that waits for the other side to agree, and the answer is here.
        line.writer.transport.abort()


def _head(request: HttpRequest) -> bytes:
    lines = [
        f"{request.method} {request.target.path} HTTP/1.1",
        f"Host: {request.target.authority}",
        *(f"{name}: {value}" for name, value in request.headers.items()),
        "Connection: close",
    ]
    if request.body is not None:
        lines.append(f"Content-Length: {len(request.body)}")
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


async def _answer(reader: asyncio.StreamReader, method: str) -> HttpResponse:
    for _ in range(_MOST_INTERIM):
        status, headers = _read_head(await reader.readuntil(b"\r\n\r\n"))
        if status >= 200:
            is_bodiless = method == "HEAD" or status in _BODILESS
            body = b"" if is_bodiless else await _body(reader, headers)
            return HttpResponse(status=status, headers=headers, body=body)
    raise HttpFailed("it says again and again that the answer will come")


def _read_head(raw: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _STATUS.fullmatch(first)
    if found is None:
        raise HttpFailed(f"what answers does not speak HTTP/1: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        raw_name, _, raw_value = line.partition(b":")
        if not _HEADER_NAME.fullmatch(raw_name):
            raise HttpFailed(f"the answer has a header that cannot be read: {line[:80]!r}")
        name, value = raw_name.decode().lower(), raw_value.strip().decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return int(found[1]), headers


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    coding = headers.get("transfer-encoding", "").lower()
    if coding == "chunked":
        return await _chunks(reader)
    if coding:
        raise HttpFailed(f"the answer is sent as {coding[:80]!r}, which was not asked for")
    length = headers.get("content-length")
    if length is None:
        return await _rest(reader)
    if not (length.isascii() and length.isdigit()):
        raise HttpFailed(f"the answer has a length that is none: {length[:80]!r}")
    return await reader.readexactly(min(int(length[:20]), LARGEST))


async def _rest(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while len(body) < LARGEST and (piece := await reader.read(LARGEST - len(body))):
        body += piece
    return bytes(body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while len(body) < LARGEST:
        line = await reader.readuntil(b"\r\n")
        found = _SIZE.match(line)
        if found is None:
            raise HttpFailed(f"the answer comes in pieces of no size: {line[:80]!r}")
        size = int(found[0], 16)
        if size == 0:
            break
        body += await reader.readexactly(min(size, LARGEST - len(body)))
        if len(body) < LARGEST and await reader.readexactly(2) != b"\r\n":
            raise HttpFailed("the answer comes in pieces of other sizes than it says")
    return bytes(body)
