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
from duly.store.nouns import deeds
from duly.store.transactions import Transactions

PAGE = 1_000
NOBODY = Actor("", "program")


class SqlAccess:
    """What is changed here is in the audit log, whoever does it."""

    def __init__(self, room: Transactions) -> None:
        self._room = room
        self._actor = room.actor or NOBODY
        self._named = room.acting(self._actor)

    async def create_token(self, wanted: NewToken) -> Token:
        start = self._named.audited(
            self._room.numbered(
                1, lambda numbers: access.create_token(wanted, *numbers, who=self._actor.who)
            ),
            deeds.token_created,
        )
        return await self._room.insist(start)

    async def find_token(self, hash_of_secret: str) -> Token | None:
        found = await self._room.read(lambda: access.find_token(hash_of_secret))
        if found is None:
            return None
        if found.is_news:
            await self._room.write(lambda: access.use_token(found.token))
        return found.token

    async def tokens(self, *, revoked: bool = False) -> list[Token]:
        return await self._room.read(lambda: access.tokens(revoked=revoked))

    async def revoke_token(self, name: str) -> Token:
        start = self._named.audited(lambda: access.revoke_token(name), deeds.token_revoked)
        return await self._room.write(start)

    async def begin_session(self, hash_of_secret: str, *, holder: str, length: timedelta) -> None:
        await self._room.write(lambda: access.begin_session(hash_of_secret, holder, length))

    async def session_holder(self, hash_of_secret: str) -> str | None:
        return await self._room.read(lambda: access.session_holder(hash_of_secret))

    async def end_session(self, hash_of_secret: str) -> None:
        await self._room.write(lambda: access.end_session(hash_of_secret))

    async def append_audit(self, actor: Actor, deed: Deed) -> AuditEntry:
        return await self._room.entered(actor, deed)

    async def audit(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        who: str | None = None,
        subject: str | None = None,
    ) -> list[AuditEntry]:
        return await self._room.read(
            lambda: access.audit(after, before, limit, who=who, subject=subject)
        )

    async def verify_audit(self) -> int | None:
        seen = access.ChainCheck(0, "")
        while not seen.is_last and seen.broken is None:
            number, previous = seen.number, seen.hash
            seen = await self._room.read(
                lambda: access.look_at_chain(number, previous, PAGE)  # noqa: B023 - read at once
            )
        return seen.broken

    async def acknowledge(self, matter: Matter, *, note: str = "") -> Acknowledgement:
        start = self._named.audited(
            lambda: access.acknowledge(matter, who=self._actor.who, note=note), deeds.acknowledged
        )
        return await self._room.insist(start)

    async def acknowledged(self) -> list[Acknowledgement]:
        return await self._room.read(access.acknowledged)

    async def forget_acknowledgement(self, subject: str, kind: str) -> bool:
        start = self._named.audited(
            lambda: access.forget_acknowledgement(subject, kind),
            lambda _: deeds.deed("needs.forget", subject, kind=kind),
        )
        return await self._room.write(start)
