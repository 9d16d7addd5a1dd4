"""What other programs ask of the web side beside the API: is it well, how much is there, what now.

Whoever asks whether it is alive, or whether it gets on, need not be known, and learns no names.
"""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from duly.remote.answering import answer, greeting
from duly.views.metrics import METRICS_TYPE, metrics, readiness
from duly.web.live import events
from duly.web.request import Ask
from duly.web.routes import Door, PublicDoor
from duly.web.shared import House

NOT_READY: Final = 503


async def alive(_: House, __: Request) -> Response:
    """This process answers. Whether work gets done is another question: /readyz."""
    return PlainTextResponse("ok\n")


async def ready(house: House, _: Request) -> Response:
    """Whether what is due is fired: how long the oldest moment has waited for a scheduler."""
    found = await house.lobby.ask(readiness)
    status = 200 if found.ready else NOT_READY
    return JSONResponse(msgspec.to_builtins(found), status_code=status)


async def measured(_: House, ask: Ask, __: bytes) -> Response:
    return Response(await ask.front.ask(metrics), media_type=METRICS_TYPE)


async def stream(house: House, ask: Ask, _: bytes) -> Response:
    house.live.check_room(ask.user.name)
    return events(await house.news.listen(ask.user, ask.last_event))


async def greet(_: House, __: Ask, ___: bytes) -> Response:
    return Response(greeting(), media_type="application/json")


async def answer_command(_: House, ask: Ask, body: bytes) -> Response:
    """A command elsewhere (``duly --url``): each call says itself which role it takes."""
    noun, verb = ask.name("noun"), ask.name("verb")
    found = await ask.front.ask(answer, noun, verb, body, user=ask.user)
    return Response(found, media_type="application/json")


PUBLIC: Final = (
    PublicDoor(method="GET", path="/healthz", behind=alive),
    PublicDoor(method="GET", path="/readyz", behind=ready),
)
OUTSIDE: Final = (
    Door(method="GET", path="/metrics", role="viewer", behind=measured),
    Door(method="GET", path="/api/v1/stream", role="viewer", behind=stream, tenants=True),
    Door(method="GET", path="/api/v1/store", role="viewer", behind=greet),
    Door(method="POST", path="/api/v1/store/{noun}/{verb}", role="viewer", behind=answer_command),
)
