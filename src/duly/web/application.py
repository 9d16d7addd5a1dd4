"""The ASGI application: all routes, probes, error handlers and security headers.

``mounted`` is for ``app.mount("/duly", duly.asgi(auth=…))``. The guards of the outer application do
not protect a mounted one, so ``auth`` is required. There is no lifespan: the database is opened by
the first request. Nothing tells a mounted application that the server stops: its streams look
whether uvicorn does, and end after a while anyway; browsers reconnect.
"""

import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final, Literal

import msgspec
from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duly.app.web_backend import WebBackend
from duly.connection import LazyStore
from duly.errors import InvalidValue, NotFound
from duly.registry.registry import Registry
from duly.remote.calls import answer, greeting
from duly.remote.http import HttpProblem
from duly.views.metrics import METRICS_TYPE, metrics, readiness
from duly.web.api import API
from duly.web.authentication import Authenticator, AuthFunction
from duly.web.live import MOUNTED_SECONDS, EventStream, LivePages, events
from duly.web.pages import PAGES
from duly.web.request import WebRequest
from duly.web.routes import (
    PublicRoute,
    WebRoute,
    WebServices,
    protected_endpoint,
    public_endpoint,
    refusal,
    respond,
)
from duly.web.sign_in import SIGN_IN_ROUTES


class _JobNumber(IntegerConvertor):
    """A job number in a path; Python refuses to parse thousands of digits."""

    regex = "[0-9]{1,100}"


register_url_convertor("number", _JobNumber())


def routes() -> list[WebRoute]:
    """Return all routes that need authentication."""
    return [*PAGES, *API, *PROBES]


def public_routes() -> list[PublicRoute]:
    return [*SIGN_IN_ROUTES, *PUBLIC_PROBES]


def make_application(
    backend: WebBackend,
    authenticator: Authenticator,
    *,
    names: Collection[str] = (),
    longest: float = MOUNTED_SECONDS,
) -> tuple[ASGIApp, LivePages]:
    """Return the application, and its streams, which the server must close when it stops.

    ``names`` are the host names that it answers to (none: any). Streams end after ``longest``
    seconds.
    """
    live = LivePages(longest=longest)
    services = WebServices(
        backend=backend, authenticator=authenticator, live=live, events=EventStream(backend, live)
    )
    handlers = {404: _not_found(authenticator), 405: _wrong_method, 500: _internal_error}
    app = Starlette(routes=[*_routes(services)], exception_handlers=handlers)
    # Outermost, so that error responses have the headers, too.
    return SecurityHeaders(app, names=names), live


def _routes(services: WebServices) -> Iterator[BaseRoute]:
    for one in routes():
        yield Route(one.path, protected_endpoint(services, one), methods=[one.method])
    for public in public_routes():
        yield Route(public.path, public_endpoint(services, public), methods=[public.method])
    yield Mount("/static", _files())


def _not_found(authenticator: Authenticator) -> Any:  # noqa: ANN401 - as Starlette types it
    async def answer(request: Request, _: Exception) -> Response:
        return refusal(authenticator, request, NotFound(f"there is nothing at {request.url.path}"))

    return answer


async def _wrong_method(request: Request, error: Exception) -> Response:
    allowed = (getattr(error, "headers", None) or {}).get("Allow", "")
    said = f"{request.url.path} allows {allowed}, not {request.method}"
    answer = respond(request, HttpProblem("method-not-allowed", "Method not allowed", 405, said))
    answer.headers["allow"] = allowed
    return answer


async def _internal_error(request: Request, _: Exception) -> Response:
    """Say where to look; only the server's log has the traceback."""
    said = "an internal error; the server's log has the traceback"
    return respond(request, HttpProblem("broken", "Internal error", 500, said))


class _VersionedFiles(StaticFiles):
    """Static files whose path contains the version, so browsers may cache them forever."""

    def file_response(self, *args: Any, **words: Any) -> Response:
        answer = super().file_response(*args, **words)
        answer.headers["cache-control"] = "public, max-age=31536000, immutable"
        return answer

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Drop the first part of the path, which is the version."""
        return await super().get_response(path.partition("/")[2], scope)


@cache
def _files() -> StaticFiles:
    return _VersionedFiles(packages=[("duly.web", "static")])


def mounted(
    home: LazyStore,
    registry: Registry,
    *,
    zone: str | None,
    auth: Literal["token"] | AuthFunction,
    tokens: bool = False,
    longest: float = MOUNTED_SECONDS,
) -> ASGIApp:
    """Return the application; ``tokens`` accepts access tokens besides the host's ``auth``."""
    backend = WebBackend(home, registry, zone=zone)
    if auth == "token":
        authenticator = Authenticator(backend)
    elif callable(auth):
        authenticator = Authenticator(backend, host=auth, tokens=tokens)
    else:
        raise InvalidValue(
            f'auth={auth!r}: expected "token", for access tokens of duly, or a function that takes '
            "the request and returns a User, or None"
        )
    app, _ = make_application(backend, authenticator, longest=longest)
    return app


NOT_READY: Final = 503


async def alive(_: WebServices, __: Request) -> Response:
    """Answer that the process is alive; /readyz reports whether schedules are fired."""
    return PlainTextResponse("ok\n")


async def ready(services: WebServices, _: Request) -> Response:
    """Return how long the oldest due run has waited for a scheduler; 503 if too long."""
    found = await services.backend.ask(readiness)
    status = 200 if found.ready else NOT_READY
    return JSONResponse(msgspec.to_builtins(found), status_code=status)


async def show_metrics(_: WebServices, request: WebRequest, __: bytes) -> Response:
    return Response(await request.app.ask(metrics), media_type=METRICS_TYPE)


async def stream(services: WebServices, request: WebRequest, _: bytes) -> Response:
    if services.live.is_polled:
        raise NotFound(
            "this server is mounted in a WSGI application, which has no streams: poll "
            "/api/v1/jobs, or run duly web beside it"
        )
    services.live.check_room(request.user.name)
    return events(await services.events.listen(request.user, request.last_event))


async def greet(_: WebServices, __: WebRequest, ___: bytes) -> Response:
    return Response(greeting(), media_type="application/json")


async def answer_command(_: WebServices, request: WebRequest, body: bytes) -> Response:
    """Run a store call of ``duly --url``; each call requires its own role."""
    noun, verb = request.name("noun"), request.name("verb")
    found = await request.app.ask(answer, noun, verb, body, user=request.user)
    return Response(found, media_type="application/json")


# Health and readiness need no authentication, and reveal no names.
PUBLIC_PROBES: Final = (
    PublicRoute(method="GET", path="/healthz", handler=alive),
    PublicRoute(method="GET", path="/readyz", handler=ready),
)
PROBES: Final = (
    WebRoute(method="GET", path="/metrics", role="viewer", handler=show_metrics),
    WebRoute(method="GET", path="/api/v1/stream", role="viewer", handler=stream, tenants=True),
    WebRoute(method="GET", path="/api/v1/store", role="viewer", handler=greet),
    WebRoute(
        method="POST", path="/api/v1/store/{noun}/{verb}", role="viewer", handler=answer_command
    ),
)


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
    """Security headers on every response, and checks of the ``Host`` header.

    The headers allow only scripts and styles of this server, and forbid frames, type sniffing and
    caching. Browsers send a referrer to this site only; without it, they would hide the Origin that
    the CSRF check needs. On a loopback address only local host names are answered, against DNS
    rebinding. A malformed ``Host`` is refused everywhere, because two parsers could read two hosts
    in it.
    """

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
