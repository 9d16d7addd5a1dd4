"""The doors of the web side: for each, who may come in, and what is behind.

There is one list of them (``application.doors``), and one way through: who asks is found out first,
then whether it is they who ask, then whether they may. A test walks all of them with everybody who
may not.
"""

import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from duly.clock import boottime
from duly.errors import DulyError, InvalidValue, NotAllowed, NotSignedIn
from duly.model.access import Role
from duly.web.error_responses import refusal
from duly.web.guard import (
    CSRF,
    CSRF_FIELD,
    CSRF_HEADER,
    SAFE,
    Caller,
    Guard,
    is_ours,
    knows_csrf,
)
from duly.web.request import Ask, ask_of
from duly.web.shared import House

MOST_BYTES = 4 * 1024 * 1024  # of a body: what a batch of jobs may take
KNOWN_SECONDS = 5.0  # so long is who listens to a stream believed to be who they were


class Behind(Protocol):
    """What is done for somebody who may come in. ``body`` is what they sent."""

    async def __call__(self, house: House, ask: Ask, body: bytes, /) -> Response: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    method: str
    path: str
    role: Role | None  # None: everybody, known or not
    behind: Behind
    tenants: bool = False  # whether somebody who is of one tenant may come in
    hidden: bool = False  # not one of the places that people are told of


Public = Callable[[House, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicDoor:
    """A door that is open: whoever comes in is nobody yet."""

    method: str
    path: str
    behind: Public


def opened(house: House, door: Door) -> Callable[[Request], Awaitable[Response]]:
    """The door as Starlette knows one."""

    async def come_in(request: Request) -> Response:
        try:
            caller = await _caller(house.guard, request)
            body = await body_of(request)
            _check_way(request, caller, body)
            _check_rights(door, caller)
            front = await house.lobby.front(caller.user, caller.how)
            answer = await door.behind(house, ask_of(request, front), body)
            if isinstance(answer, StreamingResponse):
                answer.body_iterator = _while_known(
                    house.guard, request, caller, answer.body_iterator
                )
        except DulyError as error:
            answer = refusal(house, request, error)
        return with_csrf(house.guard, request, answer)

    return come_in


def opened_to_all(house: House, door: PublicDoor) -> Callable[[Request], Awaitable[Response]]:
    async def come_in(request: Request) -> Response:
        try:
            answer = await door.behind(house, request)
        except DulyError as error:
            answer = refusal(house, request, error)
        return with_csrf(house.guard, request, answer)

    return come_in


def with_csrf(guard: Guard, request: Request, answer: Response) -> Response:
    """See to it that the browser has a secret that only our pages know."""
    if CSRF not in request.cookies and answer.headers.get("content-type", "").startswith(
        "text/html"
    ):
        answer.set_cookie(
            CSRF,
            fresh_csrf(request),
            path=request.scope.get("root_path", "") or "/",
            secure=guard.is_secure(request),
            httponly=True,
            samesite="strict",
        )
    return answer


def fresh_csrf(request: Request) -> str:
    """The secret of this browser: the one that it has, or a new one, which the answer brings."""
    if CSRF not in request.cookies:
        request.scope.setdefault("duly.csrf", secrets.token_urlsafe(24))
        return str(request.scope["duly.csrf"])
    return request.cookies[CSRF]


async def _caller(guard: Guard, request: Request) -> Caller:
    caller = await guard.caller(request)
    if caller is None:
        raise NotSignedIn(
            "nobody knows who asks: sign in, or show a Bearer token in the header Authorization"
        )
    fresh_csrf(request)
    return caller


async def _while_known(
    guard: Guard, request: Request, caller: Caller, stream: AsyncIterable[Any]
) -> AsyncIterator[Any]:
    """The stream, until who listens to it may not any more: it may outlive a token."""
    known_at = boottime()
    try:
        async for message in stream:
            yield message
            if boottime() - known_at >= KNOWN_SECONDS:
                if not await guard.still_knows(request, caller):
                    return
                known_at = boottime()
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


def _check_way(request: Request, caller: Caller, body: bytes) -> None:
    """What a browser sends by itself is not enough to change something."""
    if request.method in SAFE or not caller.ambient:
        return
    check_ours(request, body)


def check_ours(request: Request, body: bytes) -> None:
    if not is_ours(request):
        raise NotAllowed("the request does not come from a page of this duly: nothing was changed")
    if not knows_csrf(request, request.headers.get(CSRF_HEADER) or field_of(body, CSRF_FIELD)):
        raise NotAllowed("the page is from before you signed in: load it anew, and try again")


def _check_rights(door: Door, caller: Caller) -> None:
    user = caller.user
    if door.role is not None and not user.may(door.role):
        raise NotAllowed(f"needs the {door.role} role; {user.name} has the {user.role} role")
    if user.tenant is not None and not door.tenants:
        raise NotAllowed(f"is about all tenants; {user.name} may see what is {user.tenant}'s")


async def body_of(request: Request, *, most: int = MOST_BYTES) -> bytes:
    """What was sent, unless it is more than anybody keeps in memory for whoever asks."""
    said = request.headers.get("content-length", "0")
    if said.isdecimal() and int(said) > most:
        raise InvalidValue(f"a body of {int(said):,} bytes: at most {most:,}")
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > most:
            raise InvalidValue(f"a body of more than {most:,} bytes: send less at once")
    return bytes(found)


def field_of(body: bytes, name: str) -> str:
    """A field of a form; empty: there is none."""
    try:
        return parse_qs(body.decode(), max_num_fields=1_000).get(name, [""])[0]
    except ValueError:
        return ""
