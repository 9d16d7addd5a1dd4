"""Tokens, entries of the audit log and acknowledgements."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from duly.model.access import Acknowledgement, AuditEntry, Role, Token
from duly.policy.redaction import hidden, redacted
from duly.views import filled


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """An access token, without its secret."""

    name: str
    role: Role
    tenant: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: Annotated[datetime | None, Meta(description="Accurate to about a minute.")]

    @classmethod
    def of(cls, token: Token) -> "TokenView":
        return filled(cls, token)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntryView:
    """An entry of the audit log."""

    number: int
    at: datetime
    who: str
    how: Literal["person", "token", "command", "http", "program"]
    action: str
    subject: str
    details: dict[str, Any]
    hash: Annotated[str, Meta(description="Hash of this entry and of the previous entry's hash.")]

    @classmethod
    def of(cls, entry: AuditEntry) -> "AuditEntryView":
        return filled(cls, entry, details=hidden(json.loads(entry.details)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementView:
    """An acknowledged item."""

    subject: str
    kind: str
    until: datetime
    who: str
    at: datetime
    note: str

    @classmethod
    def of(cls, found: Acknowledgement) -> "AcknowledgementView":
        return filled(cls, found.matter, found, note=redacted(found.note))
