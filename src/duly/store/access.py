"""Tokens, sessions, the audit log and acknowledgements.

Every change through ``store.acting(actor)`` is in the audit log, in one transaction with the
change; a change of many jobs, which takes several transactions, is there before the first of them.
Enqueueing is not: a job has its submitter.
"""

from dataclasses import asdict
from datetime import timedelta
from typing import Final

from duly.errors import InvalidValue, NotFound, WrongState
from duly.instants import from_us, to_us
from duly.model.access import (
    LONGEST_NAME,
    Acknowledgement,
    Actor,
    AuditedAction,
    AuditEntry,
    Matter,
    NewToken,
    Token,
)
from duly.model.columns import reader
from duly.model.payload import check_text
from duly.store import audit, rows
from duly.store.database import Ask, Operation, Row, Value, alone, current_time
from duly.store.transactions import Transactions
from duly.store.verbs import Noun, reading, reads, verb

PAGE = 1_000  # entries of the audit log that are verified at once
NOBODY = Actor("", "program")
# Resolution of a token's last use: with a finer one, every request would be a write.
COARSE = timedelta(minutes=1)


class AccessStore(Noun):
    """Changes made here are always in the audit log, even without an actor."""

    def __init__(self, db: Transactions) -> None:
        super().__init__(db.acting(db.actor or NOBODY))

    @verb("admin")
    async def create_token(self, wanted: NewToken) -> Token:
        """Add a token; ``WrongState`` if one of that name has not been revoked."""
        start = self._db.numbered(
            1, lambda numbers: _create_token(wanted, *numbers, who=self._db.who)
        )
        return await self._db.change(start, audit.token_created, insist=True)

    @verb(None)
    async def find_token(self, hash_of_secret: str) -> Token | None:
        """Return the token with this hash unless it is revoked or expired at this moment.

        One index lookup. The time of last use is recorded at most once a minute.
        """
        found = await self._db.read(lambda: alone(Ask("token_of_hash", {"hash": hash_of_secret})))
        if not found:
            return None
        *row, instant = found[0]
        token, now = _token(tuple(row)), from_us(instant)
        if not token.is_valid(now):
            return None
        if token.last_used_at is None or now - token.last_used_at >= COARSE:
            values = {"id": token.id, "coarse": rows.microseconds(COARSE)}
            await self._db.write(lambda: alone(Ask("use_token", values)))
        return token

    @reads("admin")
    def tokens(self, *, revoked: bool = False) -> Operation[list[Token]]:
        """Return the tokens by name; with ``revoked``, the revoked ones too, after the others."""
        return [_token(row) for row in (yield Ask("list_tokens", {"revoked": int(revoked)}))]

    @verb("admin")
    async def revoke_token(self, name: str) -> Token:
        return await self._db.change(lambda: _revoke_token(name), audit.token_revoked)

    @verb(None)
    async def begin_session(self, hash_of_secret: str, *, holder: str, length: timedelta) -> None:
        """Record that a browser signed in with the secret whose hash is ``holder``."""
        await self._db.write(lambda: _begin_session(hash_of_secret, holder, length))

    @reads(None)
    def session_holder(self, hash_of_secret: str) -> Operation[str | None]:
        """Return the hash of the secret that began a session, while the session lasts."""
        found = yield Ask("session_holder", {"hash": hash_of_secret})
        return found[0][0] if found else None

    @verb(None)
    async def end_session(self, hash_of_secret: str) -> None:
        await self._db.write(lambda: alone(Ask("end_session", {"hash": hash_of_secret})))

    @verb(None)
    async def append_audit(self, actor: Actor, action: AuditedAction) -> AuditEntry:
        """Add an entry for an action that changes nothing in the store, such as a sign-in."""
        return await self._db.append_audit(actor, action)

    audit: Final = reading("admin", audit.listed)

    @verb("admin", changes=False, long=True)
    async def verify_audit(self) -> int | None:
        """Return the number of the first altered or missing entry, or None if there is none."""
        seen = audit.ChainCheck(0, "")
        while not seen.is_last and seen.broken is None:
            number, previous = seen.number, seen.hash
            seen = await self._db.read(
                lambda: audit.check_chain(number, previous, PAGE)  # noqa: B023 - read at once
            )
        return seen.broken

    @verb("operator")
    async def acknowledge(self, matter: Matter, *, note: str = "") -> Acknowledgement:
        """Mark a problem as known, up to its present extent; it no longer needs attention."""
        return await self._db.change(
            lambda: _acknowledge(matter, who=self._db.who, note=note),
            audit.acknowledged,
            insist=True,
        )

    @reads("viewer")
    def acknowledged(self) -> Operation[list[Acknowledgement]]:
        """Return the acknowledgements, the newest first."""
        return [_acknowledgement(row) for row in (yield Ask("list_acknowledgements"))]

    @verb("operator")
    async def forget_acknowledgement(self, subject: str, kind: str) -> bool:
        """Remove an acknowledgement; return whether there was one."""
        values: dict[str, Value] = {"subject": subject, "kind": kind}
        gone = await self._db.change(
            lambda: alone(Ask("forget_acknowledgement", values)),
            lambda _: audit.entry("needs.forget", subject, kind=kind),
        )
        return bool(gone)


def _begin_session(hash_of_secret: str, holder: str, length: timedelta) -> Operation[None]:
    yield Ask("forget_sessions")
    values: dict[str, Value] = {
        "hash": hash_of_secret,
        "holder": holder,
        "length": rows.microseconds(length),
    }
    yield Ask("begin_session", values)


def _create_token(wanted: NewToken, number: int, *, who: str) -> Operation[Token]:
    """Store a token; a repeated call finds its own row."""
    now = yield from current_time()
    if wanted.expires_at is not None and wanted.expires_at <= now:
        raise InvalidValue(f"expires_at={wanted.expires_at} is in the past; it is {now} now")
    expires_at = rows.instant(wanted.expires_at)
    mine: dict[str, Value] = {"id": number, "created_by": who, "expires_at": expires_at}
    yield Ask("add_token", {**asdict(wanted), **mine})
    found = yield Ask("created_token", {"id": number, "name": wanted.name})
    for token in map(_token, found):
        if token.id == number:
            return token
    if not found:
        raise WrongState("the secret belongs to another token: each token needs its own")
    raise WrongState(
        f'a token "{wanted.name}" exists already: revoke it first, or choose another name'
    )


def _revoke_token(name: str) -> Operation[Token]:
    check_text(name, "name", longest=LONGEST_NAME)
    found = yield Ask("revoke_token", {"name": name})
    if not found:
        raise NotFound(f'there is no token "{name}"; see duly tokens')
    return _token(found[0])


def _acknowledge(matter: Matter, *, who: str, note: str) -> Operation[Acknowledgement]:
    check_text(note, "note")
    now = yield from current_time()
    if matter.until > now:
        raise InvalidValue(
            f"until={matter.until}: the future cannot be acknowledged; it is {now} now"
        )
    values = {**asdict(matter), "until": to_us(matter.until), "who": who, "note": note}
    found = yield Ask("acknowledge", values)
    return _acknowledgement(found[0])


_token = reader(
    Token, "id name role tenant created_at created_by expires_at revoked_at last_used_at"
)


def _acknowledgement(row: Row) -> Acknowledgement:
    subject, kind, until, who, at, note = row
    matter = Matter(subject=subject, kind=kind, until=from_us(until))
    return Acknowledgement(matter=matter, who=who, at=from_us(at), note=note)
