"""The dashboard and HTTP API as a WSGI application, for Flask and other hosts without a loop.

The application runs on the event loop of the app's sync calls, in a thread, and a request waits
there for its whole response. So nothing is streamed: browsers poll live pages.

``auth`` is called in the thread of the request, where the host has what it keeps for the request.
"""

import asyncio
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, TypeAlias
from wsgiref.types import StartResponse, WSGIEnvironment

from starlette.types import ASGIApp, Message, Scope

from duly.connection import LazyStore
from duly.model.access import User
from duly.registry.registry import Registry
from duly.web.application import mounted
from duly.web.routes import MOST_BYTES

WsgiAuthFunction: TypeAlias = Callable[[WSGIEnvironment], User | None]

_USER = "duly.user"  # key of the scope: the user that the host has found


@dataclass(slots=True)
class WsgiResponse:
    status: int = 500
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""


class WsgiDashboard:
    """``DispatcherMiddleware(app, {"/duly": dashboard})``; or ``respond`` in a view of the host."""

    def __init__(
        self,
        lazy: LazyStore,
        registry: Registry,
        *,
        zone: str | None,
        auth: Literal["token"] | WsgiAuthFunction,
        tokens: bool = False,
    ) -> None:
        self._lazy = lazy
        self._auth = auth
        self._app: ASGIApp = mounted(
            lazy,
            registry,
            zone=zone,
            auth=(lambda request: request.scope[_USER]) if callable(auth) else auth,
            tokens=tokens,
            longest=0,
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        user = self._auth(environ) if callable(self._auth) else None
        answer = self.respond(environ, user)
        start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", answer.headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else answer.body]

    def respond(self, environ: WSGIEnvironment, user: User | None) -> WsgiResponse:
        """Return the response for a user that the host has authenticated; None if it has not.

        ``SCRIPT_NAME`` is the path that the dashboard is mounted at, ``PATH_INFO`` the rest.
        """
        scope, bodies = _scope(environ, user), [_body(environ)]
        answer = WsgiResponse()

        async def receive() -> Message:
            if not bodies:  # the client has sent everything, and waits
                await asyncio.Event().wait()
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = decoded(message["headers"])
            else:
                answer.body += message.get("body", b"")

        async def run() -> None:
            await self._app(scope, receive, send)

        try:
            self._lazy.run(run)
        except Exception:  # noqa: BLE001 - the application has answered with an error page
            environ["wsgi.errors"].write(traceback.format_exc())
        return answer


def decoded(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _scope(environ: WSGIEnvironment, user: User | None) -> Scope:
    root = environ.get("SCRIPT_NAME", "").rstrip("/")
    headers = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_") or (name in ("CONTENT_TYPE", "CONTENT_LENGTH") and value)
    }
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": environ.get("SERVER_PROTOCOL", "HTTP/1.1").removeprefix("HTTP/"),
        "method": environ["REQUEST_METHOD"],
        "scheme": environ["wsgi.url_scheme"],
        "path": _utf_8(root + (environ.get("PATH_INFO", "") or "/")),
        "root_path": _utf_8(root),
        "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": (environ.get("REMOTE_ADDR", "") or "?", 0),
        "server": (environ["SERVER_NAME"], int(environ["SERVER_PORT"])),
        _USER: user,
    }


def _utf_8(text: str) -> str:
    """Return a path of WSGI, whose characters are bytes, as text."""
    return text.encode("latin-1").decode(errors="replace")


def _body(environ: WSGIEnvironment) -> bytes:
    """Read the body, and no more than the one byte too many that has it refused."""
    said = environ.get("CONTENT_LENGTH", "")
    if environ.get("wsgi.input_terminated"):
        length = MOST_BYTES + 1
    else:
        length = min(int(said), MOST_BYTES + 1) if said.isdecimal() else 0
    body: bytes = environ["wsgi.input"].read(length) if length else b""
    return body
