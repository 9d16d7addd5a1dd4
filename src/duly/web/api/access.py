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
    """A filter of tokens."""

    revoked: Annotated[bool, Meta(description="Include revoked tokens.")] = False


class NewTokenBody(Body, frozen=True):
    """A token; its secret grants its role."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    role: RoleName
    tenant: Annotated[str | None, Meta(description="Restrict the token to this tenant.")] = None
    expires: Annotated[When | None, Meta(description="When the token expires; null: never.")] = (
        "90d"
    )


class TokenView(Said, frozen=True):
    """An access token, without its secret."""

    name: str
    role: RoleName
    tenant: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: Annotated[datetime | None, Meta(description="Accurate to about a minute.")]


class MadeToken(TokenView, frozen=True):
    """A new token and its secret, which cannot be shown again."""

    secret: str


class AuditQuery(Body, frozen=True):
    """A page of entries, newest first."""

    after: Annotated[Number, Meta(description="After the entry with this number.")] = 0
    before: Annotated[
        Number | UnsetType,
        Meta(description="Before the entry with this number: the `next` of the previous page."),
    ] = UNSET
    limit: Limit = 100
    who: str | None = None
    subject: Annotated[str | None, Meta(examples=["schedule:report"])] = None


class AuditEntryView(Said, frozen=True):
    """An entry of the audit log."""

    number: int
    at: datetime
    who: str
    how: Literal["person", "token", "command", "http", "program"]
    action: str
    subject: str
    details: dict[str, Any]
    hash: Annotated[str, Meta(description="Hash of this entry and of the previous entry's hash.")]


class Verified(Said, frozen=True):
    """The result of a verification of the audit log."""

    ok: bool
    broken: Annotated[
        int | None, Meta(description="The number of the first entry that was changed or deleted.")
    ]


class Acknowledge(Body, frozen=True):
    """The acknowledgement of an item that needed attention, up to its time."""

    subject: Annotated[str, Meta(min_length=1, examples=["schedule:report"])]
    kind: Annotated[str, Meta(min_length=1, examples=["overlap"])]
    until: Annotated[
        str, Meta(description="When it happened last.", examples=["2026-03-05T02:00:00Z"])
    ]
    note: str = ""


class Forget(Body, frozen=True):
    """The acknowledgement to remove."""

    subject: str
    kind: str


class AcknowledgementView(Said, frozen=True):
    """An acknowledged item."""

    subject: str
    kind: str
    until: datetime
    who: str
    at: datetime
    note: str


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
async def revoke_token(request: WebRequest, _: Nothing) -> None:
    """Revoke a token; it is refused from the next request on."""
    await request.app.tokens.arevoke(request.name("name"))


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
        "Every entry is unchanged." if found.ok else f"Entry {found.broken} was changed or deleted."
    ),
)
async def verify(request: WebRequest, _: Nothing) -> Verified:
    """Verify the audit log: whether every entry is unchanged."""
    broken = await request.app.audit.averify()
    return Verified(ok=broken is None, broken=broken)


@ACCESS("GET /acknowledgements", "viewer")
async def acknowledgements(request: WebRequest, _: Nothing) -> Listed[AcknowledgementView]:
    """List acknowledgements, newest first."""
    found = await request.app.ask(acknowledged)
    return Listed(items=[_shown(one) for one in found])


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
    until = moment_in("until", body.until)
    matter = Matter(subject=body.subject, kind=body.kind, until=until)
    return _shown(await request.app.ask(acknowledge, matter, note=body.note))


@ACCESS("DELETE /acknowledgements", "operator", say=lambda _: "The acknowledgement is removed.")
async def forget_one(request: WebRequest, query: Forget) -> None:
    """Remove an acknowledgement."""
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
