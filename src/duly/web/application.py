"""The ASGI application: all routes, error handlers and security headers.

``mounted`` is for ``app.mount("/duly", duly.asgi(auth=…))``. The guards of the outer application do
not protect a mounted one, so ``auth`` is required. There is no lifespan: the database is opened by
the first request. Nothing tells a mounted application that the server stops, so its streams end
after a while and browsers reconnect.
"""

from collections.abc import Collection
from functools import cache
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from duly.app.web_backend import WebBackend
from duly.connection import LazyStore
from duly.errors import InvalidValue, NotFound
from duly.registry.registry import Registry
from duly.remote.problems import HttpProblem
from duly.web.api import API
from duly.web.authentication import Authenticator, AuthFunction
from duly.web.error_responses import refusal, respond
from duly.web.live import MOUNTED_SECONDS, EventStream, LivePages
from duly.web.pages import OTHER_ROUTES, PAGES
from duly.web.probes import PROBES, PUBLIC_PROBES
from duly.web.routes import PublicRoute, WebRoute, WebServices, protected_endpoint, public_endpoint
from duly.web.security_headers import SecurityHeaders
from duly.web.sign_in import SIGN_IN_ROUTES


class _JobNumber(IntegerConvertor):
    """A job number in a path; Python refuses to parse thousands of digits."""

    regex = "[0-9]{1,100}"


register_url_convertor("number", _JobNumber())


def routes() -> list[WebRoute]:
    """Return all routes that need authentication."""
    return [*(page.route() for page in PAGES), *OTHER_ROUTES, *API, *PROBES]


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
    app = Starlette(
        routes=[
            *(
                Route(one.path, protected_endpoint(services, one), methods=[one.method])
                for one in routes()
            ),
            *(
                Route(one.path, public_endpoint(services, one), methods=[one.method])
                for one in public_routes()
            ),
            Mount("/static", _files()),
        ],
        exception_handlers={
            404: _not_found(authenticator),
            405: _wrong_method,
            500: _internal_error,
        },
    )
    # Outermost, so that error responses have the headers, too.
    return SecurityHeaders(app, names=names), live


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
    longest: float = MOUNTED_SECONDS,
) -> ASGIApp:
    backend = WebBackend(home, registry, zone=zone)
    if auth == "token":
        authenticator = Authenticator(backend)
    elif callable(auth):
        authenticator = Authenticator(backend, host=auth)
    else:
        raise InvalidValue(
            f'auth={auth!r}: expected "token", for access tokens of duly, or a function that takes '
            "the request and returns a User, or None"
        )
    app, _ = make_application(backend, authenticator, longest=longest)
    return app
