"""What goes with every answer so that a browser takes no more from it than was meant.

No script or style but our own files, nobody's frame, no referrer for others (there is one for
ourselves: without, browsers hide the Origin by which we know our own pages), no guessing of types,
nothing kept. And on a loopback address only names of this machine are answered to: a site whose
name is made to point here must not be able to ask.
"""

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
LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


class Shield:
    def __init__(self, app: ASGIApp, *, names: Collection[str] = ()) -> None:
        self._app = app
        self._names = frozenset(names)  # none: whatever the request says

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def shielded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        app = self._app if self._is_meant(scope) else _WRONG_NAME
        await app(scope, receive, shielded)

    def _is_meant(self, scope: Scope) -> bool:
        host = Headers(scope=scope).get("host", "")
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        return not self._names or name.lower() in self._names


_WRONG_NAME = PlainTextResponse(
    "this duly answers to names of its own machine only: open it as http://127.0.0.1, "
    "or name the others with --hosts\n",
    status_code=421,
)
