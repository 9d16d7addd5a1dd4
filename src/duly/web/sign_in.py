"""Signing in and out: a token is shown once, and the browser shows a session from then on.

The session is in the store: it ends with the sign-out, in every process and in every copy of
the cookie; and it ends with its token.
"""

from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from duly.app.access import note_sign_in
from duly.errors import NotAllowed
from duly.model.access import User
from duly.web.authentication import SESSION
from duly.web.rendering import render_bare
from duly.web.routes import PublicRoute, WebServices, body_of, check_ours, field_of, fresh_csrf

SESSION_LENGTH: Final = timedelta(hours=12)
MOST_BYTES: Final = 8 * 1024


async def ask_for_token(services: WebServices, request: Request) -> Response:
    """The form; or straight in, by the link that was printed when the server was started."""
    _check_takes_tokens(services)
    secret = request.query_params.get("token", "")
    if services.authenticator.is_launch(secret):
        return await _come_in(services, request, secret, User("admin", "admin"))
    return _form(request)


async def sign_in(services: WebServices, request: Request) -> Response:
    """A valid token always opens: many people may share the address of one who guesses."""
    _check_takes_tokens(services)
    body = await body_of(request, most=MOST_BYTES)
    check_ours(request, body)
    secret = field_of(body, "token").strip()
    user = await services.authenticator.user_of(secret)
    if user is not None:
        return await _come_in(services, request, secret, user)
    attempts, address = services.authenticator.attempts, services.authenticator.address(request)
    if wait := attempts.wait(address):
        said = f"Too many wrong tokens from here: try again in {-(-wait // 60)} min."
        return _form(request, said, status=429, headers={"retry-after": str(wait)})
    attempts.note(address)
    said = "This is no token, or one that was revoked or has expired."
    return _form(request, said, status=401)


async def sign_out(services: WebServices, request: Request) -> Response:
    check_ours(request, await body_of(request, most=MOST_BYTES))
    _check_takes_tokens(services)
    await services.backend.end_session(request.cookies.get(SESSION, ""))
    answer = RedirectResponse(f"{_root(request)}/login", status_code=303)
    answer.delete_cookie(SESSION, path=_root(request) or "/")
    return answer


def _check_takes_tokens(services: WebServices) -> None:
    if not services.authenticator.takes_tokens:
        raise NotAllowed("nobody signs in here: the application around does that")


async def _come_in(services: WebServices, request: Request, secret: str, user: User) -> Response:
    await services.backend.ask(note_sign_in, user, services.authenticator.address(request))
    session = await services.backend.begin_session(secret, SESSION_LENGTH)
    answer = RedirectResponse(_root(request) + _next(request), status_code=303)
    answer.set_cookie(
        SESSION,
        session,
        max_age=int(SESSION_LENGTH.total_seconds()),
        path=_root(request) or "/",
        secure=services.authenticator.is_secure(request),
        httponly=True,
        samesite="lax",  # a link in a mail leads to the page, and not to the sign-in
    )
    return answer


def _form(
    request: Request, said: str = "", *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    text = render_bare(
        "login.html", request, said=said, csrf=fresh_csrf(request), next=_next(request)
    )
    return HTMLResponse(text, status_code=status, headers=headers)


def _next(request: Request) -> str:
    """Where somebody wanted to go: a path of ours, and nothing that leads elsewhere."""
    said = request.query_params.get("next", "/")
    is_ours = said.startswith("/") and not said.startswith(("//", "/\\")) and said.isprintable()
    return said if is_ours else "/"


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))


SIGN_IN_ROUTES: Final = (
    PublicRoute(method="GET", path="/login", handler=ask_for_token),
    PublicRoute(method="POST", path="/login", handler=sign_in),
    PublicRoute(method="POST", path="/logout", handler=sign_out),
)
