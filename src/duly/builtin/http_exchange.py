"""One HTTP/1.1 request and its response over one connection, and the URL it goes to.

A URL is parsed once: the address, the path and the displayed form are parts of one value. Two
parsers that see two hosts in one URL are how guards are bypassed, so ambiguous URLs are refused.

The connection is made to an address that the guard has chosen, while certificate and Host are those
of the name. Proxies of the environment are not used: they would resolve the name again.
Certificates are always verified. The size of a response is bounded, however it is sent.
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
# Characters that need no quoting in a path or query; "%" too: quoted characters stay quoted.
_PLAIN = "!$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    scheme: str
    host: str  # lower case, ASCII, an IPv6 address without brackets
    port: int
    path: str  # with the query

    @classmethod
    def of(cls, url: str) -> "Target":
        """Parse a URL; raise ``Permanent`` if it is invalid."""
        _check(url)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:  # its message may repeat a password
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
        """Return the target of a redirect from here."""
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
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL without its query, which may hold secrets."""
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
_MOST_INTERIM: Final = 10  # 1xx responses
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: [^\r\n]*)?")
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SIZE = re.compile(rb"[0-9a-fA-F]{1,12}")
_BODILESS: Final = (204, 304)


class HttpFailed(Exception):
    """A request did not get the expected response; a retry may."""


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
    """A connection on which nothing was sent yet."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def connected(target: Target, address: str, *, tls: ssl.SSLContext | None) -> HttpConnection:
    """Connect to an address, with the host name of the target for TLS; or raise ``OSError``."""
    name = None if tls is None else target.host
    return HttpConnection(
        *await asyncio.open_connection(
            address, target.port, limit=_LARGEST_HEAD, ssl=tls, server_hostname=name
        )
    )


async def asked(request: HttpRequest, line: HttpConnection) -> HttpResponse:
    """Send the request and return the response, or raise ``OSError`` or ``HttpFailed``."""
    try:
        line.writer.write(_head(request) + (request.body or b""))
        with suppress(ConnectionError):  # the server may answer before it has read everything
            await line.writer.drain()
        return await _answer(line.reader, request.method)
    except asyncio.IncompleteReadError:
        raise HttpFailed("the connection was closed before the response was complete") from None
    except asyncio.LimitOverrunError:
        raise HttpFailed(f"the response has a line of more than {_LARGEST_HEAD:,} bytes") from None
    finally:
        # Not close(), which waits for the other side: the response is complete.
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
    raise HttpFailed(f"more than {_MOST_INTERIM} interim responses (1xx)")


def _read_head(raw: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _STATUS.fullmatch(first)
    if found is None:
        raise HttpFailed(f"not an HTTP/1 response: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        raw_name, _, raw_value = line.partition(b":")
        if not _HEADER_NAME.fullmatch(raw_name):
            raise HttpFailed(f"malformed response header: {line[:80]!r}")
        name, value = raw_name.decode().lower(), raw_value.strip().decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return int(found[1]), headers


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    coding = headers.get("transfer-encoding", "").lower()
    if coding == "chunked":
        return await _chunks(reader)
    if coding:
        raise HttpFailed(f"unsupported transfer encoding {coding[:80]!r}: only chunked is accepted")
    length = headers.get("content-length")
    if length is None:
        return await _rest(reader)
    if not (length.isascii() and length.isdigit()):
        raise HttpFailed(f"malformed Content-Length: {length[:80]!r}")
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
            raise HttpFailed(f"malformed chunked response: chunk size {line[:80]!r}")
        size = int(found[0], 16)
        if size == 0:
            break
        body += await reader.readexactly(min(size, LARGEST - len(body)))
        if len(body) < LARGEST and await reader.readexactly(2) != b"\r\n":
            raise HttpFailed("malformed chunked response: chunk size mismatch")
    return bytes(body)
