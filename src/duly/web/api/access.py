"""Tokens, the audit log and acknowledgements over HTTP."""

import json
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from duly.app.access import acknowledge, acknowledged, forget
from duly.model.access import Acknowledgement, Matter
from duly.policy.redaction import hidden, redacted
from duly.views import Listed
from duly.web.api.endpoint import Nothing, Router
from duly.web.api.fields import Body, Limit, Number, Said, When, moment_in, when_in
from duly.web.request import WebRequest

RoleName: TypeAlias = Literal["viewer", "operator", "admin"]


class TokenQuery(Body, frozen=True):
    """Which tokens."""

    revoked: Annotated[bool, Meta(description="Those that were revoked as well.")] = False


class NewTokenBody(Body, frozen=True):
    """A token: whoever has its secret has its rights."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    role: RoleName
    tenant: Annotated[str | None, Meta(description="Only for what is theirs.")] = None
    expires: Annotated[When | None, Meta(description="null: never.")] = "90d"


class TokenView(Said, frozen=True):
    """A right to use the HTTP side, under a name."""

    name: str
    role: RoleName
    tenant: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: Annotated[datetime | None, Meta(description="To the minute, about.")]


class MadeToken(TokenView, frozen=True):
    """A token that was just made, and its secret: nobody can show it again."""

    secret: str


class AuditQuery(Body, frozen=True):
    """Which entries, the newest first."""

    after: Annotated[Number, Meta(description="Behind the entry of this number.")] = 0
    before: Annotated[
        Number | UnsetType,
        Meta(description="Before the entry of this number: the `next` of a part."),
    ] = UNSET
    limit: Limit = 100
    who: str | None = None
    subject: Annotated[str | None, Meta(examples=["schedule:report"])] = None


class AuditEntryView(Said, frozen=True):
    """Somebody did something."""

    number: int
    at: datetime
    who: str
    how: Literal["person", "token", "command", "http", "program"]
    action: str
    subject: str
    details: dict[str, Any]
    hash: Annotated[str, Meta(description="Made of all that it says and of the hash before it.")]


class Verified(Said, frozen=True):
    """Whether the audit log is as it was written."""

    ok: bool
    broken: Annotated[
        int | None, Meta(description="The number of the first entry that is not, or is gone.")
    ]


class Acknowledge(Body, frozen=True):
    """Something that needs somebody is not a problem, as far as it had gone then."""

    subject: Annotated[str, Meta(min_length=1, examples=["schedule:report"])]
    kind: Annotated[str, Meta(min_length=1, examples=["overlap"])]
    until: Annotated[
        str, Meta(description="When the last of it happened.", examples=["2026-03-05T02:00:00Z"])
    ]
    note: str = ""


class Forget(Body, frozen=True):
    """Which acknowledgement."""

    subject: str
    kind: str


class AcknowledgementView(Said, frozen=True):
    """Somebody has said of something that it is not a problem."""

    subject: str
    kind: str
    until: datetime
    who: str
    at: datetime
    note: str


ACCESS: Final = Router("access")


@ACCESS("GET /tokens", "admin")
async def tokens(request: WebRequest, query: TokenQuery) -> Listed[TokenView]:
    """Who may use the HTTP side."""
    found = await request.app.tokens.alist(revoked=query.revoked)
    return Listed(items=[TokenView.of(token) for token in found])


@ACCESS(
    "POST /tokens",
    "admin",
    status=201,
    say=lambda found: f"{found.name} is made. Its secret, shown once: {found.secret}",
    example={"name": "ci", "role": "operator", "expires": "90d"},
)
async def create_token(request: WebRequest, body: NewTokenBody) -> MadeToken:
    """Make a token; its secret is in the answer, and nowhere else."""
    made = await request.app.tokens.acreate(
        body.name, role=body.role, tenant=body.tenant, expires=when_in("expires", body.expires)
    )
    return MadeToken.of(made.token, secret=made.secret)


@ACCESS("DELETE /tokens/{name:path}", "admin", say=lambda _: "Revoked.")
async def revoke_token(request: WebRequest, _: Nothing) -> None:
    """Revoke a token: from the next request on, it is not known."""
    await request.app.tokens.arevoke(request.name("name"))


@ACCESS("GET /audit", "admin")
async def audit(request: WebRequest, query: AuditQuery) -> Listed[AuditEntryView]:
    """Who did what, the newest first.

    For what is older, ask again with `before` as the `next` of this part.
    """
    found = await request.app.audit.alist(
        after=query.after,
        before=None if query.before is UNSET else query.before,
        limit=query.limit,
        who=query.who,
        subject=query.subject,
    )
    older = str(found[-1].number) if len(found) == query.limit else None
    return Listed(
        items=[
            AuditEntryView.of(entry, details=hidden(json.loads(entry.details))) for entry in found
        ],
        next=older,
    )


@ACCESS(
    "GET /audit/verify",
    "admin",
    say=lambda found: (
        "Every entry is as it was written."
        if found.ok
        else f"Entry {found.broken} is not as it was written, or is gone."
    ),
)
async def verify(request: WebRequest, _: Nothing) -> Verified:
    """Whether the audit log is as it was written."""
    broken = await request.app.audit.averify()
    return Verified(ok=broken is None, broken=broken)


@ACCESS("GET /acknowledgements", "viewer")
async def acknowledgements(request: WebRequest, _: Nothing) -> Listed[AcknowledgementView]:
    """What somebody has said is not a problem, the newest first."""
    found = await request.app.ask(acknowledged)
    return Listed(items=[_shown(one) for one in found])


@ACCESS(
    "POST /acknowledgements",
    "operator",
    status=201,
    say=lambda _: "It is not a problem.",
    example={
        "subject": "schedule:nightly",
        "kind": "overlap",
        "until": "2026-03-05T02:00:00Z",
    },
)
async def acknowledge_one(request: WebRequest, body: Acknowledge) -> AcknowledgementView:
    """Say that something is not a problem, as far as it has gone.

    What to send is in the `matter` of what /status says needs somebody.
    """
    until = moment_in("until", body.until)
    matter = Matter(subject=body.subject, kind=body.kind, until=until)
    return _shown(await request.app.ask(acknowledge, matter, note=body.note))


@ACCESS("DELETE /acknowledgements", "operator", say=lambda _: "It needs somebody again.")
async def forget_one(request: WebRequest, query: Forget) -> None:
    """Take an acknowledgement back."""
    await request.app.ask(forget, query.subject, query.kind)


def _shown(found: Acknowledgement) -> AcknowledgementView:
    matter = found.matter
    return AcknowledgementView.of(
        found,
        subject=matter.subject,
        kind=matter.kind,
        until=matter.until,
        note=redacted(found.note),
    )
