"""Status, doctor and settings over HTTP."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from duly.doctor.examination import Checkup
from duly.errors import StoreUnavailable
from duly.policy.redaction import redacted
from duly.settings.settings import keys
from duly.views import Listed
from duly.views.today import TodayView
from duly.views.today import status as look
from duly.web.api.endpoint import Nothing, Router
from duly.web.api.fields import Said
from duly.web.request import WebRequest


class FindingView(Said, frozen=True):
    """The result of one check."""

    check: str
    level: Literal["ok", "warning", "problem"]
    said: str
    fix: Annotated[str | None, Meta(description="The fix.")]


class Doctor(Said, frozen=True):
    """The results of duly doctor."""

    ok: Annotated[bool, Meta(description="No check found a problem.")]
    findings: list[FindingView]


class Setting(Said, frozen=True):
    """A setting of the web process, and where its value comes from."""

    name: str
    value: Any
    origin: str
    about: str


ASKING: Final = Router("asking")


@ASKING("GET /status", "viewer")
async def status(request: WebRequest, _: Nothing) -> TodayView:
    """Show whether all runs since yesterday were OK, and the items that need attention."""
    zone = request.app.backend.zone or "UTC"
    return TodayView.of(await request.app.ask(look, zone=zone), zone)


@ASKING("GET /doctor", "admin")
async def doctor(request: WebRequest, _: Nothing) -> Doctor:
    """Run the checks of duly doctor, with fixes."""
    found = await _checkup(request)
    if found.trouble:
        raise StoreUnavailable(found.trouble)
    return Doctor(
        ok=not found.count("problem"),
        findings=[
            FindingView.of(one, said=redacted(one.said), fix=redacted(one.fix) or None)
            for one in found.findings
        ],
    )


@ASKING("GET /settings", "admin")
async def settings(request: WebRequest, _: Nothing) -> Listed[Setting]:
    """List the settings of the web process, their values and sources."""
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
