"""Tokens, the audit log, acknowledgements over HTTP: who may, who did, what is no problem."""

from typing import Final

from msgspec import UNSET

from duly.app.access import acknowledge, acknowledged, forget
from duly.model.access import Matter
from duly.views import Listed
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.access import (
    Acknowledge,
    AcknowledgementView,
    AuditEntryView,
    AuditQuery,
    Forget,
    MadeToken,
    NewTokenBody,
    TokenQuery,
    TokenView,
    Verified,
)
from duly.web.api.schemas.common import moment_in, when_in
from duly.web.request import WebRequest


async def tokens(request: WebRequest, query: TokenQuery) -> Listed[TokenView]:
    found = await request.app.tokens.alist(revoked=query.revoked)
    return Listed(items=[TokenView.of(token) for token in found])


async def create_token(request: WebRequest, body: NewTokenBody) -> MadeToken:
    made = await request.app.tokens.acreate(
        body.name, role=body.role, tenant=body.tenant, expires=when_in("expires", body.expires)
    )
    return MadeToken.made(made.token, made.secret)


async def revoke_token(request: WebRequest, _: Nothing) -> None:
    await request.app.tokens.arevoke(request.name("name"))


async def audit(request: WebRequest, query: AuditQuery) -> Listed[AuditEntryView]:
    found = await request.app.audit.alist(
        after=query.after,
        before=None if query.before is UNSET else query.before,
        limit=query.limit,
        who=query.who,
        subject=query.subject,
    )
    older = str(found[-1].number) if len(found) == query.limit else None
    return Listed(items=[AuditEntryView.of(entry) for entry in found], next=older)


async def verify(request: WebRequest, _: Nothing) -> Verified:
    broken = await request.app.audit.averify()
    return Verified(ok=broken is None, broken=broken)


async def acknowledgements(request: WebRequest, _: Nothing) -> Listed[AcknowledgementView]:
    found = await request.app.ask(acknowledged)
    return Listed(items=[AcknowledgementView.of(one) for one in found])


async def acknowledge_one(request: WebRequest, body: Acknowledge) -> AcknowledgementView:
    until = moment_in("until", body.until)
    matter = Matter(subject=body.subject, kind=body.kind, until=until)
    return AcknowledgementView.of(await request.app.ask(acknowledge, matter, note=body.note))


async def forget_one(request: WebRequest, query: Forget) -> None:
    await request.app.ask(forget, query.subject, query.kind)


ACCESS: Final = (
    Endpoint(
        method="GET",
        path="/tokens",
        role="admin",
        run=tokens,
        summary="Who may use the HTTP side",
        tag="access",
        body=TokenQuery,
        answer=Listed[TokenView],
    ),
    Endpoint(
        method="POST",
        path="/tokens",
        role="admin",
        run=create_token,
        summary="Make a token; its secret is in the answer, and nowhere else",
        tag="access",
        body=NewTokenBody,
        answer=MadeToken,
        status=201,
        say=lambda found: f"{found.name} is made. Its secret, shown once: {found.secret}",
        example={"name": "ci", "role": "operator", "expires": "90d"},
    ),
    Endpoint(
        method="DELETE",
        path="/tokens/{name:path}",
        role="admin",
        run=revoke_token,
        summary="Revoke a token: from the next request on, it is not known",
        tag="access",
        say=lambda _: "Revoked.",
    ),
    Endpoint(
        method="GET",
        path="/audit",
        role="admin",
        run=audit,
        summary="Who did what, the newest first",
        tag="access",
        body=AuditQuery,
        answer=Listed[AuditEntryView],
        about="For what is older, ask again with `before` as the `next` of this part.",
    ),
    Endpoint(
        method="GET",
        path="/audit/verify",
        role="admin",
        run=verify,
        summary="Whether the audit log is as it was written",
        tag="access",
        answer=Verified,
        say=lambda found: (
            "Every entry is as it was written."
            if found.ok
            else f"Entry {found.broken} is not as it was written, or is gone."
        ),
    ),
    Endpoint(
        method="GET",
        path="/acknowledgements",
        role="viewer",
        run=acknowledgements,
        summary="What somebody has said is not a problem, the newest first",
        tag="access",
        answer=Listed[AcknowledgementView],
    ),
    Endpoint(
        method="POST",
        path="/acknowledgements",
        role="operator",
        run=acknowledge_one,
        summary="Say that something is not a problem, as far as it has gone",
        tag="access",
        body=Acknowledge,
        answer=AcknowledgementView,
        status=201,
        say=lambda _: "It is not a problem.",
        about="What to send is in the `matter` of what /status says needs somebody.",
        example={
            "subject": "schedule:nightly",
            "kind": "overlap",
            "until": "2026-03-05T02:00:00Z",
        },
    ),
    Endpoint(
        method="DELETE",
        path="/acknowledgements",
        role="operator",
        run=forget_one,
        summary="Take an acknowledgement back",
        tag="access",
        body=Forget,
        say=lambda _: "It needs somebody again.",
    ),
)
