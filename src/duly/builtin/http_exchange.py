"""A URL, taken apart once: what is connected to, asked for and shown are parts of one value.

Two readers of one URL that see two hosts in it are how guards are led astray. So anything in it
that could be read in two ways is refused.
"""

import asyncio
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from duly.errors import Permanent
from duly.policy.redaction import hidden_url

PORTS: Final = {"http": 80, "https": 443}
LONGEST: Final = 8_000
_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f\\]")
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
# What may stand in a path or a query as it is, "%" included: what is quoted stays so.
_PLAIN = "!$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    scheme: str
    host: str  # as it is asked for: lower case, ASCII, an IPv6 address without its brackets
    port: int
    path: str  # with the query

    @classmethod
    def of(cls, url: str) -> "Target":
        """What the URL says, or ``Permanent``."""
        _check(url)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:  # whose words may repeat a password
            said = f"{_shown(url)}: not a URL: its host or its port cannot be read"
            raise Permanent(said) from None
        if parts.scheme not in PORTS:
            raise Permanent(f"{_shown(url)}: the URL begins with https:// or http://")
        if "@" in parts.netloc:
            raise Permanent(
                "the URL holds a user or a password, which everybody could read; put it into "
                "headers: Authorization"
            )
        path = quote(parts.path or "/", safe=_PLAIN)
        query = f"?{quote(parts.query, safe=_PLAIN)}" if parts.query else ""
        return cls(
            scheme=parts.scheme,
            host=_host(host, url),
            port=PORTS[parts.scheme] if port is None else port,
            path=path + query,
        )

    def led_to(self, location: str) -> "Target":
        """Where a redirect from here leads."""
        _check(location)
        try:
            url = urljoin(str(self), location)
        except ValueError:
            raise Permanent(f"{self.shown} redirects to no URL") from None
        return Target.of(url)

    @property
    def origin(self) -> tuple[str, str, int]:
        return (self.scheme, self.host, self.port)

    @property
    def authority(self) -> str:
        """As in the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """For people: without the query, which may hold keys."""
        return f"{self.scheme}://{self.authority}{self.path.partition('?')[0]}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def _check(url: str) -> None:
    if _NOT_IN_A_URL.search(url) or len(url) > LONGEST:
        raise Permanent(
            f"{_shown(url)}: a URL has no spaces, backslashes or control characters, and at "
            f"most {LONGEST:,} characters"
        )


def _host(found: str, url: str) -> str:
    try:
        if ":" in found and "%" not in found:
            return str(IPv6Address(found))
        host = found.removesuffix(".").encode("idna").decode().lower()
    except ValueError:
        host = ""
    if not _HOST.fullmatch(host):
        raise Permanent(f"{_shown(url)}: the URL names no host that could be looked up")
    return host


def _shown(url: str) -> str:
    return repr(hidden_url(url).partition("?")[0][:200])


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
