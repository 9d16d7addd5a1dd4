"""Endpoints for monitoring, the event stream, and the store calls of remote commands.

Health and readiness need no authentication, and reveal no names.
"""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from duly.remote.answering import answer, greeting
from duly.views.metrics import METRICS_TYPE, metrics, readiness
from duly.web.live import events
from duly.web.request import WebRequest
from duly.web.routes import PublicRoute, WebRoute, WebServices

NOT_READY: Final = 503


async def alive(_: WebServices, __: Request) -> Response:
    """Answer that the process is alive; /readyz reports whether schedules are fired."""
    return PlainTextResponse("ok\n")


async def ready(services: WebServices, _: Request) -> Response:
    """Return how long the oldest due run has waited for a scheduler; 503 if too long."""
    found = await services.backend.ask(readiness)
    status = 200 if found.ready else NOT_READY
    return JSONResponse(msgspec.to_builtins(found), status_code=status)


async def show_metrics(_: WebServices, request: WebRequest, __: bytes) -> Response:
    return Response(await request.app.ask(metrics), media_type=METRICS_TYPE)


async def stream(services: WebServices, request: WebRequest, _: bytes) -> Response:
    services.live.check_room(request.user.name)
    return events(await services.events.listen(request.user, request.last_event))


async def greet(_: WebServices, __: WebRequest, ___: bytes) -> Response:
    return Response(greeting(), media_type="application/json")


async def answer_command(_: WebServices, request: WebRequest, body: bytes) -> Response:
    """Run a store call of ``duly --url``; each call requires its own role."""
    noun, verb = request.name("noun"), request.name("verb")
    found = await request.app.ask(answer, noun, verb, body, user=request.user)
    return Response(found, media_type="application/json")


PUBLIC_PROBES: Final = (
    PublicRoute(method="GET", path="/healthz", handler=alive),
    PublicRoute(method="GET", path="/readyz", handler=ready),
)
PROBES: Final = (
    WebRoute(method="GET", path="/metrics", role="viewer", handler=show_metrics),
    WebRoute(method="GET", path="/api/v1/stream", role="viewer", handler=stream, tenants=True),
    WebRoute(method="GET", path="/api/v1/store", role="viewer", handler=greet),
    WebRoute(
        method="POST", path="/api/v1/store/{noun}/{verb}", role="viewer", handler=answer_command
    ),
)
