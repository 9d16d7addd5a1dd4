"""Status, doctor and settings; tokens, the audit log and acknowledgements over HTTP."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from duly.app.access import acknowledge, acknowledged, forget
from duly.doctor import Doctor
from duly.doctor.examination import Checkup
from duly.errors import StoreUnavailable
from duly.model.access import Matter, Role
from duly.settings.settings import keys
from duly.views import Listed
from duly.views.access import AcknowledgementView, AuditEntryView, TokenView
from duly.views.times import read_moment
from duly.views.today import TodayView
from duly.views.today import status as look
from duly.web.api.endpoint import (
    Body,
    Limit,
    Number,
    Router,
    Said,
    When,
    described,
    when_in,
)
from duly.web.request import WebRequest


class TokenQuery(Body, frozen=True):
    """A filter of tokens."""

    revoked: Annotated[bool, described("Include revoked tokens.")] = False


class NewTokenBody(Body, frozen=True):
    """A token; its secret grants its role."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    role: Role
    tenant: Annotated[str | None, described("Restrict the token to this tenant.")] = None
    expires: Annotated[When | None, described("When the token expires; null: never.")] = "90d"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeToken(TokenView):
    """A new token and its secret, which cannot be shown again."""

    secret: str


class AuditQuery(Body, frozen=True):
    """A page of entries, newest first."""

    after: Annotated[Number, described("After the entry with this number.")] = 0
    before: Annotated[
        Number | UnsetType,
        described("Before the entry with this number: the `next` of the previous page."),
    ] = UNSET
    limit: Limit = 100
    who: str | None = None
    subject: Annotated[str | None, Meta(examples=["schedule:report"])] = None


class Verified(Said, frozen=True):
    """The result of a verification of the audit log."""

    ok: bool
    broken: Annotated[
        int | None, described("The number of the first entry that was changed or deleted.")
    ]


class Acknowledge(Body, frozen=True):
    """The acknowledgement of an item that needed attention, up to its time."""

    subject: Annotated[str, Meta(min_length=1, examples=["schedule:report"])]
    kind: Annotated[str, Meta(min_length=1, examples=["overlap"])]
    until: Annotated[str, described("When it happened last.", examples=["2026-03-05T02:00:00Z"])]
    note: str = ""


class Forget(Body, frozen=True):
    """The acknowledgement to remove."""

    subject: str
    kind: str


ACCESS: Final = Router("access")


@ACCESS("GET /tokens", "admin")
async def tokens(request: WebRequest, query: TokenQuery) -> Listed[TokenView]:
    """List access tokens."""
    found = await request.app.tokens.alist(revoked=query.revoked)
    return Listed(items=[TokenView.of(token) for token in found])


@ACCESS(
    "POST /tokens",
    "admin",
    status=201,
    say=lambda found: f"{found.name} is created. Its secret, shown once: {found.secret}",
    example={"name": "ci", "role": "operator", "expires": "90d"},
)
async def create_token(request: WebRequest, body: NewTokenBody) -> MadeToken:
    """Create a token; its secret is in this response only."""
    made = await request.app.tokens.acreate(
        body.name, role=body.role, tenant=body.tenant, expires=when_in("expires", body.expires)
    )
    return MadeToken.of(made.token, secret=made.secret)


@ACCESS("DELETE /tokens/{name:path}", "admin", say=lambda _: "Revoked.")
async def revoke_token(request: WebRequest, name: str) -> None:
    """Revoke a token; it is refused from the next request on."""
    await request.app.tokens.arevoke(name)


@ACCESS("GET /audit", "admin")
async def audit(request: WebRequest, query: AuditQuery) -> Listed[AuditEntryView]:
    """List the audit log, newest first.

    For older entries, pass the `next` of this page as `before`.
    """
    found = await request.app.audit.alist(
        after=query.after,
        before=None if query.before is UNSET else query.before,
        limit=query.limit,
        who=query.who,
        subject=query.subject,
    )
    older = str(found[-1].number) if len(found) == query.limit else None
    return Listed(items=[AuditEntryView.of(entry) for entry in found], next=older)


@ACCESS(
    "GET /audit/verify",
    "admin",
    say=lambda found: (
        "Every entry is unchanged." if found.ok else f"Entry {found.broken} was changed or deleted."
    ),
)
async def verify(request: WebRequest) -> Verified:
    """Verify the audit log: whether every entry is unchanged."""
    broken = await request.app.audit.averify()
    return Verified(ok=broken is None, broken=broken)


@ACCESS("GET /acknowledgements", "viewer")
async def acknowledgements(request: WebRequest) -> Listed[AcknowledgementView]:
    """List acknowledgements, newest first."""
    found = await request.app.ask(acknowledged)
    return Listed(items=[AcknowledgementView.of(one.matter, one) for one in found])


@ACCESS(
    "POST /acknowledgements",
    "operator",
    status=201,
    say=lambda _: "Acknowledged.",
    example={
        "subject": "schedule:nightly",
        "kind": "overlap",
        "until": "2026-03-05T02:00:00Z",
    },
)
async def acknowledge_one(request: WebRequest, body: Acknowledge) -> AcknowledgementView:
    """Acknowledge an item that needs attention, up to now.

    Send the `matter` of an item in `needs` of /status.
    """
    until = read_moment(body.until, what="until")
    matter = Matter(subject=body.subject, kind=body.kind, until=until)
    found = await request.app.ask(acknowledge, matter, note=body.note)
    return AcknowledgementView.of(found.matter, found)


@ACCESS("DELETE /acknowledgements", "operator", say=lambda _: "The acknowledgement is removed.")
async def forget_one(request: WebRequest, query: Forget) -> None:
    """Remove an acknowledgement."""
    await request.app.ask(forget, query.subject, query.kind)


class Setting(Said, frozen=True):
    """A setting of the web process, and where its value comes from."""

    name: str
    value: Any
    origin: str
    about: str


ASKING: Final = Router("asking")


@ASKING("GET /status", "viewer")
async def status(request: WebRequest) -> TodayView:
    """Show whether all runs since yesterday were OK, and the items that need attention."""
    zone = request.app.backend.zone or "UTC"
    return TodayView.of(await request.app.ask(look, zone=zone), zone)


@ASKING("GET /doctor", "admin")
async def doctor(request: WebRequest) -> Doctor:
    """Run the checks of duly doctor, with fixes."""
    found = await _checkup(request)
    if found.trouble:
        raise StoreUnavailable(found.trouble)
    return Doctor.of(found.findings)


@ASKING("GET /settings", "admin")
async def settings(request: WebRequest) -> Listed[Setting]:
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
