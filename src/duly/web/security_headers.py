"""Security headers on every response, and checks of the ``Host`` header.

The headers allow only scripts and styles of this server, and forbid frames, type sniffing and
caching. Browsers send a referrer to this site only; without it, they would hide the Origin that the
CSRF check needs. On a loopback address only local host names are answered, against DNS rebinding. A
malformed ``Host`` is refused everywhere, because two parsers could read two hosts in it.
"""

import re
from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_HOST = re.compile(
    r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,255})(?::[0-9]{0,5})?", re.ASCII | re.IGNORECASE
)
LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


class SecurityHeaders:
    def __init__(self, app: ASGIApp, *, names: Collection[str] = ()) -> None:
        self._app = app
        self._names = frozenset(names)  # empty: any host name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._answering(scope)(scope, receive, with_headers)

    def _answering(self, scope: Scope) -> ASGIApp:
        said = Headers(scope=scope).getlist("host")
        found = _HOST.fullmatch(said[0]) if len(said) == 1 else None
        if said and found is None:
            return _NO_HOST
        name = found["name"].lower() if found else ""
        return self._app if not self._names or name in self._names else _WRONG_NAME


_NO_HOST = PlainTextResponse("the Host header is malformed\n", status_code=400)
_WRONG_NAME = PlainTextResponse(
    "this server only answers to local host names: open http://127.0.0.1, or allow other names "
    "with --hosts\n",
    status_code=421,
)
