"""Tokens, the audit log, and what somebody has said is not a problem: what may be asked.

Everything that is changed through ``store.acting(actor)`` is in the audit log, in one transaction
with the change; what is done to many jobs at once, in a row of transactions, is there before the
first of them. Enqueueing is not: a job has its submitter. What is changed here is always there.
"""

from datetime import timedelta
from typing import Protocol

from duly.model.access import Acknowledgement, Actor, AuditEntry, Deed, Matter, NewToken, Token


class Access(Protocol):
    async def create_token(self, wanted: NewToken) -> Token:
        """Remember a token; ``WrongState`` if one of that name has not been revoked."""
        ...

    async def find_token(self, hash_of_secret: str) -> Token | None:
        """The token of that hash, if it is neither revoked nor expired: now, not a while ago.

        One look into an index, whatever is asked. When it was last used is noted once a minute.
        """
        ...

    async def tokens(self, *, revoked: bool = False) -> list[Token]:
        """By name: those that have not been revoked; or all, those that have been behind."""
        ...

    async def revoke_token(self, name: str) -> Token: ...

    async def begin_session(self, hash_of_secret: str, *, holder: str, length: timedelta) -> None:
        """Remember that a browser signed in with the secret whose hash is ``holder``."""
        ...

    async def session_holder(self, hash_of_secret: str) -> str | None:
        """The hash of the secret that a session was begun with, while the session lasts."""
        ...

    async def end_session(self, hash_of_secret: str) -> None: ...

    async def append_audit(self, actor: Actor, deed: Deed) -> AuditEntry:
        """Add to the audit log what is no change in the store: that somebody signed in."""
        ...

    async def audit(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        who: str | None = None,
        subject: str | None = None,
    ) -> list[AuditEntry]:
        """The newest first, of those between the numbers ``after`` and ``before``."""
        ...

    async def verify_audit(self) -> int | None:
        """The number of the first entry that is not as it was written, or is gone; None: none."""
        ...

    async def acknowledge(self, matter: Matter, *, note: str = "") -> Acknowledgement:
        """Say that a matter is not a problem, as far as it has gone; it needs nobody any more."""
        ...

    async def acknowledged(self) -> list[Acknowledgement]:
        """The newest first."""
        ...

    async def forget_acknowledgement(self, subject: str, kind: str) -> bool:
        """Whether there was one to take back."""
        ...
