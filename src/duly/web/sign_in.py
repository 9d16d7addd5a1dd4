"""Sign in with an access token, which starts a session; sign out, which ends it.

Sessions are in the store: a sign-out ends the session in every process and for every copy of the
cookie, and a session ends with its token.
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
    """Show the form, or sign in with the link that the server printed when it started."""
    _check_takes_tokens(services)
    secret = request.query_params.get("token", "")
    if services.authenticator.is_launch(secret):
        return await _start_session(services, request, secret, User("admin", "admin"))
    return _form(request)


async def sign_in(services: WebServices, request: Request) -> Response:
    """Sign in with the token of the form.

    A valid token is accepted even after too many wrong ones, because users may share an address
    with an attacker.
    """
    _check_takes_tokens(services)
    body = await body_of(request, most=MOST_BYTES)
    check_ours(request, body)
    secret = field_of(body, "token").strip()
    user = await services.authenticator.user_of(secret)
    if user is not None:
        return await _start_session(services, request, secret, user)
    attempts = services.authenticator.failed_sign_ins
    address = services.authenticator.address(request)
    if wait := attempts.wait(address):
        said = f"Too many wrong tokens from your address: try again in {-(-wait // 60)} min."
        return _form(request, said, status=429, headers={"retry-after": str(wait)})
    attempts.note(address)
    said = "Invalid token: unknown, revoked or expired."
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
        raise NotAllowed("sign in through the application that this dashboard is mounted in")


async def _start_session(
    services: WebServices, request: Request, secret: str, user: User
) -> Response:
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
        samesite="lax",  # so that a link in a mail opens the page
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
    """Return the page to show after signing in; only a path of this site."""
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
