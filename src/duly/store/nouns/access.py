"""Tokens, the audit log and acknowledgements.

Every change through ``store.acting(actor)`` is in the audit log, in one transaction with the
change; a change of many jobs, which takes several transactions, is there before the first of them.
Enqueueing is not: a job has its submitter.
"""

from datetime import timedelta

from duly.model.access import (
    Acknowledgement,
    Actor,
    AuditedAction,
    AuditEntry,
    Matter,
    NewToken,
    Token,
)
from duly.store import access
from duly.store.database import Operation
from duly.store.nouns import audited_actions as deeds
from duly.store.transactions import Transactions
from duly.store.verbs import Noun, reads, verb

PAGE = 1_000
NOBODY = Actor("", "program")


class AccessStore(Noun):
    """Changes made here are always in the audit log, even without an actor."""

    def __init__(self, room: Transactions) -> None:
        self._db = room
        self._actor = room.actor or NOBODY
        self._named = room.acting(self._actor)

    @verb("admin")
    async def create_token(self, wanted: NewToken) -> Token:
        """Add a token; ``WrongState`` if one of that name has not been revoked."""
        start = self._named.audited(
            self._db.numbered(
                1, lambda numbers: access.create_token(wanted, *numbers, who=self._actor.who)
            ),
            deeds.token_created,
        )
        return await self._db.insist(start)

    @verb(None)
    async def find_token(self, hash_of_secret: str) -> Token | None:
        """Return the token with this hash unless it is revoked or expired at this moment.

        One index lookup. The time of last use is recorded at most once a minute.
        """
        found = await self._db.read(lambda: access.find_token(hash_of_secret))
        if found is None:
            return None
        if found.is_news:
            await self._db.write(lambda: access.use_token(found.token))
        return found.token

    @reads("admin")
    def tokens(self, *, revoked: bool = False) -> Operation[list[Token]]:
        """Return the tokens by name; with ``revoked``, the revoked ones too, after the others."""
        return access.tokens(revoked=revoked)

    @verb("admin")
    async def revoke_token(self, name: str) -> Token:
        start = self._named.audited(lambda: access.revoke_token(name), deeds.token_revoked)
        return await self._db.write(start)

    @verb(None)
    async def begin_session(self, hash_of_secret: str, *, holder: str, length: timedelta) -> None:
        """Record that a browser signed in with the secret whose hash is ``holder``."""
        await self._db.write(lambda: access.begin_session(hash_of_secret, holder, length))

    @reads(None)
    def session_holder(self, hash_of_secret: str) -> Operation[str | None]:
        """Return the hash of the secret that began a session, while the session lasts."""
        return access.session_holder(hash_of_secret)

    @verb(None)
    async def end_session(self, hash_of_secret: str) -> None:
        await self._db.write(lambda: access.end_session(hash_of_secret))

    @verb(None)
    async def append_audit(self, actor: Actor, deed: AuditedAction) -> AuditEntry:
        """Add an entry for an action that changes nothing in the store, such as a sign-in."""
        return await self._db.entered(actor, deed)

    @reads("admin")
    def audit(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        who: str | None = None,
        subject: str | None = None,
    ) -> Operation[list[AuditEntry]]:
        """Return the entries with numbers between ``after`` and ``before``, the newest first."""
        return access.audit(after, before, limit, who=who, subject=subject)

    @verb("admin", changes=False, long=True)
    async def verify_audit(self) -> int | None:
        """Return the number of the first altered or missing entry, or None if there is none."""
        seen = access.ChainCheck(0, "")
        while not seen.is_last and seen.broken is None:
            number, previous = seen.number, seen.hash
            seen = await self._db.read(
                lambda: access.look_at_chain(number, previous, PAGE)  # noqa: B023 - read at once
            )
        return seen.broken

    @verb("operator")
    async def acknowledge(self, matter: Matter, *, note: str = "") -> Acknowledgement:
        """Mark a problem as known, up to its present extent; it no longer needs attention."""
        start = self._named.audited(
            lambda: access.acknowledge(matter, who=self._actor.who, note=note), deeds.acknowledged
        )
        return await self._db.insist(start)

    @reads("viewer")
    def acknowledged(self) -> Operation[list[Acknowledgement]]:
        """Return the acknowledgements, the newest first."""
        return access.acknowledged()

    @verb("operator")
    async def forget_acknowledgement(self, subject: str, kind: str) -> bool:
        """Remove an acknowledgement; return whether there was one."""
        start = self._named.audited(
            lambda: access.forget_acknowledgement(subject, kind),
            lambda _: deeds.deed("needs.forget", subject, kind=kind),
        )
        return await self._db.write(start)
