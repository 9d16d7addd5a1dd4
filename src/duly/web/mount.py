"""The web side within another ASGI application: ``app.mount("/duly", duly.asgi(auth=who))``.

What guards the application around it does not guard what is mounted in it: so who may come in has
to be said. There is no lifespan: nothing is opened before somebody asks. And nobody tells it that
the server stops: so its streams end by themselves, and browsers come back.
"""

from typing import Literal

from starlette.types import ASGIApp

from duly.app.acting import Lobby
from duly.connection import LazyStore
from duly.errors import InvalidValue
from duly.registry.registry import Registry
from duly.web.application import make_application
from duly.web.guard import Ask, Guard
from duly.web.live import MOUNTED_SECONDS


def mounted(
    home: LazyStore,
    registry: Registry,
    *,
    zone: str | None,
    auth: Literal["token"] | Ask,
    longest: float = MOUNTED_SECONDS,
) -> ASGIApp:
    lobby = Lobby(home, registry, zone=zone)
    if auth == "token":
        guard = Guard(lobby)
    elif callable(auth):
        guard = Guard(lobby, host=auth)
    else:
        raise InvalidValue(
            f'auth={auth!r}: "token", for tokens of duly\'s own, or a function that is given the '
            "request and says who it is: a User, or None"
        )
    app, _ = make_application(lobby, guard, longest=longest)
    return app
