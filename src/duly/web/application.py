"""The application: all doors, and what stands before them."""

from collections.abc import Collection
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from duly.app.acting import Lobby
from duly.errors import NotFound
from duly.remote.problems import Problem
from duly.web.api import API
from duly.web.error_responses import refusal, told
from duly.web.guard import Guard
from duly.web.live import MOUNTED_SECONDS, Live
from duly.web.news import News
from duly.web.pages import DOORS, PAGES
from duly.web.probes import OUTSIDE, PUBLIC
from duly.web.routes import Door, PublicDoor, opened, opened_to_all
from duly.web.security_headers import Shield
from duly.web.shared import House
from duly.web.sign_in import SIGNING


class _Number(IntegerConvertor):
    """Of a job; with thousands of digits it would be none that Python reads."""

    regex = "[0-9]{1,100}"


register_url_convertor("number", _Number())


def doors() -> list[Door]:
    """All of them that need somebody to be known."""
    return [
        *(page.door() for page in PAGES),
        *DOORS,
        *API,
        *OUTSIDE,
    ]


def public_doors() -> list[PublicDoor]:
    return [*SIGNING, *PUBLIC]


def make_application(
    lobby: Lobby, guard: Guard, *, names: Collection[str] = (), longest: float = MOUNTED_SECONDS
) -> tuple[ASGIApp, Live]:
    """The application, and its streams: whoever stops the server closes them.

    ``names`` are those it answers to; none: to any. Streams end by themselves after ``longest``.
    """
    live = Live(longest=longest)
    house = House(lobby=lobby, guard=guard, live=live, news=News(lobby, live))
    app = Starlette(
        routes=[
            *(Route(one.path, opened(house, one), methods=[one.method]) for one in doors()),
            *(
                Route(one.path, opened_to_all(house, one), methods=[one.method])
                for one in public_doors()
            ),
            Mount("/static", _files()),
        ],
        exception_handlers={404: _nowhere(house), 405: _otherwise, 500: _broken},
    )
    # Around all of it: also what went wrong is answered with what goes with every answer.
    return Shield(app, names=names), live


def _nowhere(house: House) -> Any:  # noqa: ANN401 - as Starlette types it
    async def answer(request: Request, _: Exception) -> Response:
        return refusal(house, request, NotFound(f"there is nothing at {request.url.path}"))

    return answer


async def _otherwise(request: Request, error: Exception) -> Response:
    """There is something, and it is asked for in another way."""
    allowed = (getattr(error, "headers", None) or {}).get("Allow", "")
    said = f"{request.url.path} takes {allowed}, and not {request.method}"
    answer = told(request, Problem("method-not-allowed", "Not in this way", 405, said))
    answer.headers["allow"] = allowed
    return answer


async def _broken(request: Request, _: Exception) -> Response:
    """What went wrong is in the log of the server, with its traceback, and nowhere else."""
    said = "the log of the server says what; nothing is known to have been changed"
    return told(request, Problem("broken", "Something went wrong here", 500, said))


class _Kept(StaticFiles):
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
    return _Kept(packages=[("duly.web", "static")])
