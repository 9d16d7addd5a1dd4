"""Tokens, users and roles; the audit log; and acknowledged problems.

A token's secret is 32 random bytes, so a plain SHA-256 of it is stored and used to find it. A slow
hash is for passwords, which people choose and others can guess.

The audit log is a hash chain. An entry's hash covers its content and the hash before it, so a
person who changes, removes or inserts an entry has to recompute every later hash, and anybody who
has noted one of those notices.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Final, Literal, TypeAlias, get_args

from duly.errors import InvalidValue
from duly.instants import to_us
from duly.model.payload import EMPTY, Json, check_text, encode
from duly.model.policies import check_moment

Role: TypeAlias = Literal["viewer", "operator", "admin"]
How: TypeAlias = Literal["person", "token", "command", "http", "program"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)  # each includes the rights of those before it
HOWS: Final[tuple[How, ...]] = get_args(How)
PREFIX: Final = "duly_"  # by which people and secret scanners recognise a token
LONGEST_NAME: Final = 100
LONGEST_SUBJECT: Final = 1_000
LONGEST_DETAILS: Final = 16 * 1024
HASH_LETTERS: Final = 64


def hash_of(secret: str) -> str:
    """Return the hash under which a secret is stored."""
    return sha256(secret.encode(errors="surrogateescape")).hexdigest()


def _check_holder(kind: str, name: str, role: str, tenant: str | None) -> None:
    if not check_text(name, "name", longest=LONGEST_NAME).strip():
        raise InvalidValue(f"name: a {kind}'s name must not be empty")
    if role not in ROLES:
        raise InvalidValue(f"role={role!r}: choose one of {', '.join(ROLES)}")
    if tenant is not None and not check_text(tenant, "tenant"):
        raise InvalidValue("tenant: empty; use None for all tenants")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token to create; ``hash`` is that of a secret which the store never sees."""

    name: str
    role: Role
    hash: str
    tenant: str | None = None  # None: of all tenants
    expires_at: datetime | None = None  # None: never

    def __post_init__(self) -> None:
        _check_holder("token", self.name, self.role, self.tenant)
        if len(self.hash) != HASH_LETTERS or not set(self.hash) <= set("0123456789abcdef"):
            raise InvalidValue("hash: not the output of hash_of(secret)")
        if self.expires_at is not None:
            check_moment("expires_at", self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A named token that gives access to the HTTP API and the dashboard."""

    id: int
    name: str
    role: Role
    created_at: datetime
    created_by: str
    tenant: str | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None  # to the minute, about

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)

    def may(self, role: Role) -> bool:
        """Return whether the token has this role's rights; a role of a later version has none."""
        return self.role in ROLES[ROLES.index(role) :]


@dataclass(frozen=True, slots=True)
class User:
    """A user of the HTTP API and the dashboard, with a role and perhaps limited to one tenant.

    ``duly.asgi(auth=…)`` gets it from the host application.
    """

    name: str
    role: Role = "viewer"
    tenant: str | None = None  # None: of all tenants

    def __post_init__(self) -> None:
        _check_holder("user", self.name, self.role, self.tenant)

    def may(self, role: Role) -> bool:
        """Return whether the user has this role's rights."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a change, and how they were identified.

    ``person``: signed in to the dashboard. ``http``: identified by a host application or a proxy.
    """

    who: str
    how: How

    def __post_init__(self) -> None:
        check_text(self.who, "who")
        if self.how not in HOWS:
            raise InvalidValue(f"how={self.how!r}: choose one of {', '.join(HOWS)}")


@dataclass(frozen=True, slots=True)
class AuditedAction:
    """An action and its subject: ``AuditedAction("queues.set", "queue:mail", …)``."""

    action: str
    subject: str = ""
    details: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not check_text(self.action, "action", longest=LONGEST_NAME):
            raise InvalidValue('action: empty; name the action, as "queues.set"')
        check_text(self.subject, "subject", longest=LONGEST_SUBJECT)
        self.text()

    def text(self) -> Json:
        return encode(dict(self.details), what="details", longest=LONGEST_DETAILS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An action in the audit log. ``deed`` is the idempotency number of the action."""

    number: int
    at: datetime
    who: str
    how: How
    action: str
    subject: str
    details: Json = EMPTY
    deed: int = 0
    previous: str = ""  # the hash of the entry before
    hash: str = ""

    def digest(self) -> str:
        """Return the hash that the entry must have."""
        said = [
            self.number, to_us(self.at), self.who, self.how, self.action, self.subject,
            self.details, self.deed, self.previous,
        ]  # fmt: skip
        text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()

    def follows(self, number: int, previous: str) -> bool:
        """Return whether the entry follows an entry with this number and hash, unchanged."""
        return (self.number, self.previous, self.hash) == (number + 1, previous, self.digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """A problem that needs a person's attention, up to a moment.

    ``until`` is its last occurrence: a later occurrence has not been acknowledged.
    """

    subject: str  # "schedule:report", "task:send"
    kind: str  # "overlap", "late", "failed", "no worker", …
    until: datetime

    def __post_init__(self) -> None:
        check_text(self.subject, "subject", longest=LONGEST_SUBJECT)
        check_text(self.kind, "kind", longest=LONGEST_NAME)
        check_moment("until", self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A person's statement that a matter is not a problem."""

    matter: Matter
    who: str
    at: datetime
    note: str = ""
