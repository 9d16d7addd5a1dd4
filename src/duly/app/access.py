"""``duly.tokens`` and ``duly.audit``: access tokens for the HTTP API, and the audit log.

Everything that a person or a token changes is done on a store that acts in their name. Each such
change is in the audit log, written in the same transaction.
"""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from getpass import getuser
from typing import Final

from duly.app.actions import Action, AppNoun, awaitable, blocking
from duly.errors import NotFound
from duly.model.access import (
    PREFIX,
    Acknowledgement,
    Actor,
    AuditedAction,
    AuditEntry,
    Matter,
    NewToken,
    Role,
    Token,
    User,
    hash_of,
)
from duly.registry.option_values import When, when_of
from duly.store.store import Store

LIFE = "90d"  # of a token of which nothing else is said
RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A new token and its secret, which cannot be shown again."""

    token: Token
    secret: str = field(repr=False)


class Tokens(AppNoun):
    """Access tokens for the HTTP API, by name. A token's secret grants its rights to any holder."""

    _noun = "duly.tokens"

    @blocking
    def list(self, *, revoked: bool = False) -> Action[Sequence[Token]]:
        """Return the tokens by name; with ``revoked``, include revoked ones."""
        return Action(lambda store: store.access.tokens(revoked=revoked))

    @blocking
    def create(
        self, name: str, /, *, role: Role, tenant: str | None = None, expires: When | None = LIFE
    ) -> Action[NewSecret]:
        """Create a token; ``tenant`` limits it to that tenant, ``expires=None`` means never."""
        return Action(lambda store: _created(store, name, role, tenant=tenant, expires=expires))

    @blocking
    def revoke(self, name: str, /) -> Action[Token]:
        """Revoke the token: it is refused from the next request on."""
        return Action(lambda store: _named(store).access.revoke_token(name))

    alist: Final = awaitable(list)
    acreate: Final = awaitable(create)
    arevoke: Final = awaitable(revoke)


class Audit(AppNoun):
    """The audit log: who did what and when, and through which interface."""

    _noun = "duly.audit"

    @blocking
    def list(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        who: str | None = None,
        subject: str | None = None,
    ) -> Action[Sequence[AuditEntry]]:
        """Return entries between two numbers, newest first; ``subject`` as "schedule:report"."""
        return Action(
            lambda store: store.access.audit(
                after=after, before=before, limit=limit, who=who, subject=subject
            )
        )

    @blocking
    def verify(self) -> Action[int | None]:
        """Return the number of the first entry that was altered or deleted."""
        return Action(lambda store: store.access.verify_audit())

    alist: Final = awaitable(list)
    averify: Final = awaitable(verify)


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def login() -> str:
    """Return the name of the OS user, or the user's number if it has no name."""
    try:
        return getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def commanded(store: Store) -> Store:
    """Return the store acting in the name of the user who runs the command."""
    return store.acting(Actor(login(), "command"))


async def note_sign_in(store: Store, user: User, address: str) -> None:
    """Write a sign-in to the audit log, with the user's role and address."""
    deed = AuditedAction("sign in", f"user:{user.name}", {"role": user.role, "from": address})
    await store.access.append_audit(Actor(user.name, "person"), deed)


async def _created(
    store: Store, name: str, role: Role, *, tenant: str | None, expires: When | None
) -> NewSecret:
    end = when_of("expires", expires)
    if isinstance(end, timedelta):
        end = await store.diagnostics.now() + end
    secret = new_secret()
    wanted = NewToken(name=name, role=role, tenant=tenant, hash=hash_of(secret), expires_at=end)
    return NewSecret(await _named(store).access.create_token(wanted), secret)


def _named(store: Store) -> Store:
    """Return the store acting in the name of the OS user, unless it has an actor already."""
    return store if store.actor is not None else store.acting(Actor(login(), "program"))


async def acknowledge(store: Store, matter: Matter, *, note: str = "") -> Acknowledgement:
    """Acknowledge a problem: hide it until it occurs again."""
    return await store.access.acknowledge(matter, note=note)


async def acknowledged(store: Store) -> Sequence[Acknowledgement]:
    """Return the acknowledgements, newest first."""
    return await store.access.acknowledged()


async def forget(store: Store, subject: str, kind: str) -> None:
    if not await store.access.forget_acknowledgement(subject, kind):
        raise NotFound(f'"{kind}" of "{subject}" is not acknowledged')
