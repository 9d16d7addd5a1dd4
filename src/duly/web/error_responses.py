"""Error responses: problem JSON for programs, a page for people, a message for a button."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from duly.errors import DulyError, NotSignedIn
from duly.policy.redaction import redacted
from duly.remote.problems import MEDIA_TYPE, HttpProblem, problem_of
from duly.web.authentication import Authenticator
from duly.web.rendering import render_bare


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
