"""Status, doctor and settings over HTTP."""

from typing import Final

from duly.doctor.examination import Checkup
from duly.errors import StoreUnavailable
from duly.settings.settings import keys
from duly.views import Listed
from duly.views.today import TodayView
from duly.views.today import status as look
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.status import Doctor, FindingView, Setting
from duly.web.request import WebRequest


async def status(request: WebRequest, _: Nothing) -> TodayView:
    zone = request.app.backend.zone or "UTC"
    return TodayView.of(await request.app.ask(look, zone=zone), zone)


async def doctor(request: WebRequest, _: Nothing) -> Doctor:
    found = await _checkup(request)
    if found.trouble:
        raise StoreUnavailable(found.trouble)
    return Doctor(
        ok=not found.count("problem"), findings=[FindingView.of(one) for one in found.findings]
    )


async def settings(request: WebRequest, _: Nothing) -> Listed[Setting]:
    there = request.app.backend.settings
    return Listed(
        items=[
            Setting(name=name, value=there.plain(name), origin=there.origin(name), about=key.about)
            for name, key in keys().items()
        ]
    )


async def _checkup(request: WebRequest) -> Checkup:
    """The last one; the first is waited for, which is as long as a check may take."""
    while (found := await request.app.ask(request.app.backend.rounds.look)) is None:
        pass
    return found


ASKING: Final = (
    Endpoint(
        method="GET",
        path="/status",
        role="viewer",
        run=status,
        summary="Whether all runs since yesterday were OK, and what needs attention",
        tag="asking",
        answer=TodayView,
    ),
    Endpoint(
        method="GET",
        path="/doctor",
        role="admin",
        run=doctor,
        summary="What is around the store, and what helps",
        tag="asking",
        answer=Doctor,
    ),
    Endpoint(
        method="GET",
        path="/settings",
        role="admin",
        run=settings,
        summary="Every setting of the web process, its value and where that comes from",
        tag="asking",
        answer=Listed[Setting],
    ),
)
