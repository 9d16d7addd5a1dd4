"""The kinds of routes, and the checks that every request passes.

``application.routes()`` lists all protected routes. Each request is checked in the same order:
authenticate the caller, check the CSRF token if a browser sent the credentials by itself, check
role and tenant, then call the handler. A test calls every route as each caller it must refuse.
"""

import secrets
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
)
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from duly.app.web_backend import WebBackend
from duly.clock import boottime
from duly.errors import DulyError, InvalidValue, NotAllowed, NotSignedIn
from duly.model.access import Role
from duly.policy.redaction import redacted
from duly.remote.http import MEDIA_TYPE, HttpProblem, problem_of
from duly.views.access import check_own_schedule
from duly.web.authentication import (
    CSRF,
    CSRF_FIELD,
    CSRF_HEADER,
    SAFE,
    Authenticator,
    Caller,
    is_ours,
    knows_csrf,
)
from duly.web.live import EventStream, LivePages
from duly.web.rendering import render, render_bare, render_main
from duly.web.request import WebRequest, web_request

MOST_BYTES = 4 * 1024 * 1024  # of a request body: enough for a batch of jobs
KNOWN_SECONDS = 5.0  # how often the listener of a stream is authenticated again
LIVE = "live"  # query parameter: answer with a stream of the page instead of the page

Values: TypeAlias = Mapping[str, Any]
StarletteEndpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebServices:
    """The objects that all routes of one application share."""

    backend: WebBackend
    authenticator: Authenticator
    live: LivePages
    events: EventStream


class RouteHandler(Protocol):
    """Answer a request whose caller was authenticated and authorised."""

    async def __call__(
        self, services: WebServices, request: WebRequest, body: bytes, /
    ) -> Response: ...


PublicHandler: TypeAlias = Callable[[WebServices, Request], Awaitable[Response]]
# Gets the request and the parts of the path.
PageView: TypeAlias = Callable[..., Awaitable[Values]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRoute:
    """A route that needs a signed-in caller with at least ``role``."""

    method: str
    path: str
    role: Role
    handler: RouteHandler
    tenants: bool = False  # whether a caller that is limited to one tenant may use it


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicRoute:
    """A route that needs no authentication."""

    method: str
    path: str
    handler: PublicHandler


@dataclass(frozen=True, slots=True)
class PageTemplate:
    """A page: ``view`` returns the template's values; its block ``main`` is updated live."""

    template: str
    view: PageView

    async def show(self, services: WebServices, request: WebRequest, _: bytes) -> Response:
        if LIVE not in request.query:
            return HTMLResponse(render(self.template, request, await self._values(request)))
        services.live.check_room(request.user.name)

        async def make() -> str:
            return render_main(self.template, request, await self._values(request))

        if services.live.is_polled:
            return await services.live.once(make, request.last_event)

        # For one URL, users with the same role, tenant and time zone share the rendered page.
        user, zone = request.user, request.preferences.zone
        key = (request.root, request.path, str(request.query), zone, user.role, user.tenant)
        return services.live.stream(key, make, who=user.name)

    async def _values(self, request: WebRequest) -> Values:
        """Return the values of the view and of the banner, which every page has."""
        # First the view: Today finds the overdue runs itself.
        values = await self.view(request, *request.names.values())
        overdue = await request.app.ask(request.app.backend.today.overdue)
        return {**values, "overdue": overdue}


class PageRouter:
    """The routes of some pages, each declared by decorating its function.

    Of several routes that match a path, the first counts. ``tenants`` is for all of them: whether
    callers that are limited to one tenant may use them.
    """

    def __init__(self, *, tenants: bool = False) -> None:
        self._tenants = tenants
        self.routes: list[WebRoute] = []

    def page(
        self, path: str, template: str, role: Role = "viewer"
    ) -> Callable[[PageView], PageView]:
        """Declare a page; the function returns the values of its template."""

        def declare(view: PageView) -> PageView:
            self(f"GET {path}", role)(PageTemplate(template, view).show)
            return view

        return declare

    def __call__(self, place: str, role: Role) -> Callable[[RouteHandler], RouteHandler]:
        """Declare another route of a method and a path, as ``GET /search``."""
        method, path = place.split()

        def declare(handler: RouteHandler) -> RouteHandler:
            self.routes.append(
                WebRoute(
                    method=method, path=path, role=role, handler=handler, tenants=self._tenants
                )
            )
            return handler

        return declare


def protected_endpoint(services: WebServices, route: WebRoute) -> StarletteEndpoint:
    """Return the route as a Starlette endpoint, with all checks before the handler."""
    authenticator = services.authenticator

    async def answer(request: Request) -> Response:
        caller = await _caller(authenticator, request)
        body = await body_of(request)
        if request.method not in SAFE and caller.ambient:
            check_ours(request, body)
        _check_rights(route, caller)
        app = await services.backend.as_user(caller.user, caller.how)
        if "/schedules/{name" in route.path:
            name = request.path_params["name"]
            await app.ask(check_own_schedule, name, caller.user.tenant)
        found = await route.handler(services, web_request(request, app), body)
        if isinstance(found, StreamingResponse):
            found.body_iterator = _while_known(authenticator, request, caller, found.body_iterator)
        return found

    return _answered(services, answer)


def public_endpoint(services: WebServices, route: PublicRoute) -> StarletteEndpoint:
    """Return the route as a Starlette endpoint."""

    async def answer(request: Request) -> Response:
        return await route.handler(services, request)

    return _answered(services, answer)


def _answered(services: WebServices, answer: StarletteEndpoint) -> StarletteEndpoint:
    """Turn errors into responses, and give browsers a CSRF token."""

    async def endpoint(request: Request) -> Response:
        try:
            response = await answer(request)
        except DulyError as error:
            response = refusal(services.authenticator, request, error)
        return with_csrf(services.authenticator, request, response)

    return endpoint


def with_csrf(authenticator: Authenticator, request: Request, response: Response) -> Response:
    """Set the CSRF cookie on a page for a browser that has none."""
    is_page = response.headers.get("content-type", "").startswith("text/html")
    if CSRF not in request.cookies and is_page:
        response.set_cookie(
            CSRF,
            fresh_csrf(request),
            path=request.scope.get("root_path", "") or "/",
            secure=authenticator.is_secure(request),
            httponly=True,
            samesite="strict",
        )
    return response


def fresh_csrf(request: Request) -> str:
    """Return the browser's CSRF token; a new one, which the response sets, if it has none."""
    if CSRF not in request.cookies:
        request.scope.setdefault("duly.csrf", secrets.token_urlsafe(24))
        return str(request.scope["duly.csrf"])
    return request.cookies[CSRF]


async def _caller(authenticator: Authenticator, request: Request) -> Caller:
    caller = await authenticator.caller(request)
    if caller is None:
        raise NotSignedIn(
            "not signed in: sign in, or send an access token (Bearer) in the header Authorization"
        )
    fresh_csrf(request)
    return caller


async def _while_known(
    authenticator: Authenticator, request: Request, caller: Caller, stream: AsyncIterable[Any]
) -> AsyncIterator[Any]:
    """Pass the stream on until the caller's credentials are no longer valid."""
    known_at = boottime()
    try:
        async for message in stream:
            yield message
            if boottime() - known_at >= KNOWN_SECONDS:
                if not await authenticator.still_knows(request, caller):
                    return
                known_at = boottime()
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


def check_ours(request: Request, body: bytes) -> None:
    """Refuse a cross-site request: the Origin must be ours and the CSRF token must match."""
    if not is_ours(request):
        raise NotAllowed("the request does not come from a page of this server: nothing changed")
    if not knows_csrf(request, request.headers.get(CSRF_HEADER) or field_of(body, CSRF_FIELD)):
        raise NotAllowed("the page is from before you signed in: reload it and try again")


def _check_rights(route: WebRoute, caller: Caller) -> None:
    user = caller.user
    if not user.may(route.role):
        raise NotAllowed(f"needs the {route.role} role; {user.name} has the {user.role} role")
    if user.tenant is not None and not route.tenants:
        raise NotAllowed(f"shows all tenants; {user.name} may see tenant {user.tenant} only")


async def body_of(request: Request, *, most: int = MOST_BYTES) -> bytes:
    """Read the request's body; refuse it if it has more than ``most`` bytes."""
    said = request.headers.get("content-length", "0")
    if said.isdecimal() and int(said) > most:
        raise InvalidValue(f"the body has {int(said):,} bytes; at most {most:,} are allowed")
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > most:
            raise InvalidValue(f"the body has more than {most:,} bytes: send less at once")
    return bytes(found)


def field_of(body: bytes, name: str) -> str:
    """Return a field of a form; empty if there is none."""
    try:
        return parse_qs(body.decode(), max_num_fields=1_000).get(name, [""])[0]
    except ValueError:
        return ""


def refusal(authenticator: Authenticator, request: Request, error: DulyError) -> Response:
    """Return the error's response; a page request that is not signed in goes to the sign-in."""
    sign_in = isinstance(error, NotSignedIn) and authenticator.takes_tokens
    is_page = request.method == "GET" and "hx-request" not in request.headers
    if sign_in and is_page and not is_for_programs(request):
        return RedirectResponse(_sign_in(request), status_code=303)
    return respond(request, problem_of(error))


def respond(request: Request, problem: HttpProblem) -> Response:
    """Return the problem in the form that the client can show."""
    if "hx-request" in request.headers:
        return _message(request, problem)
    return problem_response(problem) if is_for_programs(request) else _page(request, problem)


def problem_response(problem: HttpProblem) -> Response:
    headers = {"www-authenticate": "Bearer"} if problem.status == 401 else {}
    said = problem.as_json() | {"detail": redacted(problem.detail)}
    return JSONResponse(said, status_code=problem.status, headers=headers, media_type=MEDIA_TYPE)


def is_for_programs(request: Request) -> bool:
    """Return whether the client does not accept HTML.

    The path does not decide this: without JavaScript, forms post to the API, too.
    """
    return "text/html" not in request.headers.get("accept", "")


def _sign_in(request: Request) -> str:
    root = request.scope.get("root_path", "")
    path = request.scope["path"].removeprefix(root)
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{root}/login?{urlencode({'next': path + query})}"


def _message(request: Request, problem: HttpProblem) -> Response:
    text = render_bare("toast.html", request, kind="bad", text=redacted(problem.detail))
    headers = {"hx-retarget": "#toasts", "hx-reswap": "beforeend"}
    return HTMLResponse(text, status_code=problem.status, headers=headers)


def _page(request: Request, problem: HttpProblem) -> Response:
    text = render_bare("refusal.html", request, problem=problem, detail=problem.detail)
    return HTMLResponse(text, status_code=problem.status)
