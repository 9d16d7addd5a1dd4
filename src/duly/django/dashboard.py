"""The dashboard and HTTP API in the project's urls, for the project's own users.

    path("duly/", include("duly.django.urls"))

Staff with a permission of ``ROLES`` may use it; programs send an access token of duly. Under ASGI
pages are live; under WSGI they poll.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import cache
from io import BytesIO
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch
from django.views.decorators.csrf import csrf_exempt

from duly.django.app import duly
from duly.model.access import Role, User
from duly.web.wsgi import decoded

# The permission for each role, the highest first.
ROLES: Final[dict[str, Role]] = {
    "duly.administer_duly": "admin",
    "duly.operate_duly": "operator",
    "duly.view_duly": "viewer",
}
_USER: Final = "duly.django.user"
logger = logging.getLogger("django.request")


def user_of(user: Any) -> User | None:
    """Return a Django user with their role, if they are staff and have a permission."""
    if not (user.is_active and user.is_staff):
        return None
    role = next((role for name, role in ROLES.items() if user.has_perm(name)), None)
    return None if role is None else User(user.get_username(), role)


@csrf_exempt  # its forms have tokens of their own, and it checks the Origin
def dashboard(request: HttpRequest, path: str = "") -> HttpResponseBase:
    user = user_of(request.user)
    if user is None and "Authorization" not in request.headers:
        if request.user.is_authenticated:
            raise PermissionDenied
        return redirect_to_login(request.get_full_path(), _login_url())
    root = request.path[: len(request.path) - len(path)].rstrip("/")
    if hasattr(request, "scope"):
        return _streamed(request, user, root)
    return _whole(request, user, root, path)


def _login_url() -> str | None:
    try:
        return resolve_url("admin:login")
    except NoReverseMatch:
        return None  # LOGIN_URL


def _whole(request: HttpRequest, user: User | None, root: str, path: str) -> HttpResponse:
    body = request.body
    environ = {
        **request.META,
        "SCRIPT_NAME": root.encode().decode("latin-1"),
        "PATH_INFO": f"/{path}".encode().decode("latin-1"),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": False,
    }
    answer = _wsgi().respond(environ, user)
    response = HttpResponse(answer.body, status=answer.status)
    return _with_headers(response, answer.headers)


def _streamed(request: Any, user: User | None, root: str) -> StreamingHttpResponse:
    """Return the response of the ASGI application, which goes on running on the server's loop."""
    path = root + request.path[len(root) :]
    scope = {**request.scope, "root_path": root, "path": path, _USER: user}
    start, pieces = async_to_sync(_begin)(scope, request.body)
    response = StreamingHttpResponse(pieces, status=start["status"])
    return _with_headers(response, decoded(start["headers"]))


async def _begin(scope: dict[str, Any], body: bytes) -> tuple[dict[str, Any], AsyncIterator[bytes]]:
    """Start the application; return the start of its response, and the pieces of the body."""
    bodies, sent = [body], asyncio.Queue[dict[str, Any]](maxsize=1)

    async def receive() -> dict[str, Any]:
        if not bodies:  # the client has sent everything, and waits
            await asyncio.Event().wait()
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def run() -> None:
        try:
            await _asgi()(scope, receive, sent.put)
        except Exception:  # the application has answered with an error page
            logger.exception("%s failed", scope["path"])

    task = asyncio.create_task(run())

    async def pieces() -> AsyncIterator[bytes]:
        try:
            more = True
            while more:
                message = await sent.get()
                more = message.get("more_body", False)
                yield message.get("body", b"")
        finally:
            task.cancel()

    return await sent.get(), pieces()


def _with_headers(response: Any, headers: list[tuple[str, str]]) -> Any:
    for name, value in headers:
        if name.lower() == "set-cookie":
            response.cookies.load(value)
        else:
            response[name] = value
    return response


@cache
def _asgi() -> Any:
    return duly.asgi(auth=lambda connection: connection.scope[_USER], tokens=True)


@cache
def _wsgi() -> Any:
    return duly.wsgi(auth=lambda _: None, tokens=True)
