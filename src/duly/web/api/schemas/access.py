"""Tokens, the audit log and acknowledgements as they are sent and answered."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from duly.model import access as model
from duly.policy.redaction import hidden, redacted
from duly.web.api.schemas.common import Body, Limit, Number, Said, When

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

    @classmethod
    def of(cls, token: model.Token) -> "TokenView":
        return cls(**_token(token))


class MadeToken(TokenView, frozen=True):
    """A token that was just made, and its secret: nobody can show it again."""

    secret: str

    @classmethod
    def made(cls, token: model.Token, secret: str) -> "MadeToken":
        return cls(**_token(token), secret=secret)


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

    @classmethod
    def of(cls, entry: model.AuditEntry) -> "AuditEntryView":
        return cls(
            number=entry.number,
            at=entry.at,
            who=entry.who,
            how=entry.how,
            action=entry.action,
            subject=entry.subject,
            details=hidden(json.loads(entry.details)),
            hash=entry.hash,
        )


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

    @classmethod
    def of(cls, found: model.Acknowledgement) -> "AcknowledgementView":
        return cls(
            subject=found.matter.subject,
            kind=found.matter.kind,
            until=found.matter.until,
            who=found.who,
            at=found.at,
            note=redacted(found.note),
        )


def _token(token: model.Token) -> dict[str, Any]:
    return {
        "name": token.name,
        "role": token.role,
        "tenant": token.tenant,
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
    }
