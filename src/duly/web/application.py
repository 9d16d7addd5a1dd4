"""The application: all doors, and what stands before them."""

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

from duly.app.acting import WebBackend
from duly.connection import LazyStore
from duly.errors import InvalidValue, NotFound
from duly.registry.registry import Registry
from duly.remote.problems import HttpProblem
from duly.web.api import API
from duly.web.authentication import Authenticator, AuthFunction
from duly.web.error_responses import refusal, told
from duly.web.live import MOUNTED_SECONDS, EventStream, LivePages
from duly.web.pages import OTHER_ROUTES, PAGES
from duly.web.probes import PROBES, PUBLIC_PROBES
from duly.web.routes import PublicRoute, WebRoute, WebServices, protected_endpoint, public_endpoint
from duly.web.security_headers import SecurityHeaders
from duly.web.sign_in import SIGN_IN_ROUTES


class _JobNumber(IntegerConvertor):
    """Of a job; with thousands of digits it would be none that Python reads."""

    regex = "[0-9]{1,100}"


register_url_convertor("number", _JobNumber())


def routes() -> list[WebRoute]:
    """All of them that need somebody to be known."""
    return [
        *(page.route() for page in PAGES),
        *OTHER_ROUTES,
        *API,
        *PROBES,
    ]


def public_routes() -> list[PublicRoute]:
    return [*SIGN_IN_ROUTES, *PUBLIC_PROBES]


def make_application(
    backend: WebBackend,
    authenticator: Authenticator,
    *,
    names: Collection[str] = (),
    longest: float = MOUNTED_SECONDS,
) -> tuple[ASGIApp, LivePages]:
    """The application, and its streams: whoever stops the server closes them.

    ``names`` are those it answers to; none: to any. Streams end by themselves after ``longest``.
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
        exception_handlers={404: _nowhere(authenticator), 405: _otherwise, 500: _broken},
    )
    # Around all of it: also what went wrong is answered with what goes with every answer.
    return SecurityHeaders(app, names=names), live


def _nowhere(authenticator: Authenticator) -> Any:  # noqa: ANN401 - as Starlette types it
    async def answer(request: Request, _: Exception) -> Response:
        return refusal(authenticator, request, NotFound(f"there is nothing at {request.url.path}"))

    return answer


async def _otherwise(request: Request, error: Exception) -> Response:
    """There is something, and it is asked for in another way."""
    allowed = (getattr(error, "headers", None) or {}).get("Allow", "")
    said = f"{request.url.path} takes {allowed}, and not {request.method}"
    answer = told(request, HttpProblem("method-not-allowed", "Not in this way", 405, said))
    answer.headers["allow"] = allowed
    return answer


async def _broken(request: Request, _: Exception) -> Response:
    """What went wrong is in the log of the server, with its traceback, and nowhere else."""
    said = "the log of the server says what; nothing is known to have been changed"
    return told(request, HttpProblem("broken", "Something went wrong here", 500, said))


class _VersionedFiles(StaticFiles):
    """Files that change with the version only, whose address names it."""

    def file_response(self, *args: Any, **words: Any) -> Response:
        answer = super().file_response(*args, **words)
        answer.headers["cache-control"] = "public, max-age=31536000, immutable"
        return answer

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The first part of a path is the version."""
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
            f'auth={auth!r}: "token", for tokens of duly\'s own, or a function that is given the '
            "request and says who it is: a User, or None"
        )
    app, _ = make_application(backend, authenticator, longest=longest)
    return app
