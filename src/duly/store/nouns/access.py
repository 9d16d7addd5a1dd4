"""Tokens, the audit log, acknowledgements."""

from datetime import timedelta

from duly.model.access import (
    Acknowledgement,
    Actor,
    AuditEntry,
    Deed,
    Matter,
    NewToken,
    Token,
)
from duly.store import access
from duly.store.database import Operation
from duly.store.nouns import deeds
from duly.store.transactions import Transactions
from duly.store.verbs import Noun, reads, verb

PAGE = 1_000
NOBODY = Actor("", "program")


class AccessStore(Noun):
    """What is changed here is in the audit log, whoever does it."""

    def __init__(self, room: Transactions) -> None:
        self._db = room
        self._actor = room.actor or NOBODY
        self._named = room.acting(self._actor)

    @verb("admin")
    async def create_token(self, wanted: NewToken) -> Token:
        """Remember a token; ``WrongState`` if one of that name has not been revoked."""
        start = self._named.audited(
            self._db.numbered(
                1, lambda numbers: access.create_token(wanted, *numbers, who=self._actor.who)
            ),
            deeds.token_created,
        )
        return await self._db.insist(start)

    @verb(None)
    async def find_token(self, hash_of_secret: str) -> Token | None:
        """The token of that hash, if it is neither revoked nor expired: now, not a while ago.

        One look into an index, whatever is asked. When it was last used is noted once a minute.
        """
        found = await self._db.read(lambda: access.find_token(hash_of_secret))
        if found is None:
            return None
        if found.is_news:
            await self._db.write(lambda: access.use_token(found.token))
        return found.token

    @reads("admin")
    def tokens(self, *, revoked: bool = False) -> Operation[list[Token]]:
        """By name: those that have not been revoked; or all, those that have been behind."""
        return access.tokens(revoked=revoked)

    @verb("admin")
    async def revoke_token(self, name: str) -> Token:
        start = self._named.audited(lambda: access.revoke_token(name), deeds.token_revoked)
        return await self._db.write(start)

    @verb(None)
    async def begin_session(self, hash_of_secret: str, *, holder: str, length: timedelta) -> None:
        """Remember that a browser signed in with the secret whose hash is ``holder``."""
        await self._db.write(lambda: access.begin_session(hash_of_secret, holder, length))

    @reads(None)
    def session_holder(self, hash_of_secret: str) -> Operation[str | None]:
        """The hash of the secret that a session was begun with, while the session lasts."""
        return access.session_holder(hash_of_secret)

    @verb(None)
    async def end_session(self, hash_of_secret: str) -> None:
        await self._db.write(lambda: access.end_session(hash_of_secret))

    @verb(None)
    async def append_audit(self, actor: Actor, deed: Deed) -> AuditEntry:
        """Add to the audit log what is no change in the store: that somebody signed in."""
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
        """The newest first, of those between the numbers ``after`` and ``before``."""
        return access.audit(after, before, limit, who=who, subject=subject)

    @verb("admin", changes=False, long=True)
    async def verify_audit(self) -> int | None:
        """The number of the first entry that is not as it was written, or is gone; None: none."""
        seen = access.ChainCheck(0, "")
        while not seen.is_last and seen.broken is None:
            number, previous = seen.number, seen.hash
            seen = await self._db.read(
                lambda: access.look_at_chain(number, previous, PAGE)  # noqa: B023 - read at once
            )
        return seen.broken

    @verb("operator")
    async def acknowledge(self, matter: Matter, *, note: str = "") -> Acknowledgement:
        """Say that a matter is not a problem, as far as it has gone; it needs nobody any more."""
        start = self._named.audited(
            lambda: access.acknowledge(matter, who=self._actor.who, note=note), deeds.acknowledged
        )
        return await self._db.insist(start)

    @reads("viewer")
    def acknowledged(self) -> Operation[list[Acknowledgement]]:
        """The newest first."""
        return access.acknowledged()

    @verb("operator")
    async def forget_acknowledgement(self, subject: str, kind: str) -> bool:
        """Whether there was one to take back."""
        start = self._named.audited(
            lambda: access.forget_acknowledgement(subject, kind),
            lambda _: deeds.deed("needs.forget", subject, kind=kind),
        )
        return await self._db.write(start)
