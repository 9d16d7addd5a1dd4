"""A URL, taken apart once: what is connected to, asked for and shown are parts of one value.

Two readers of one URL that see two hosts in it are how guards are led astray. So anything in it
that could be read in two ways is refused.
"""

import re
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
