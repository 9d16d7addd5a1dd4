"""Operations on tokens, the audit log and acknowledgements.

A transaction that adds to the audit log locks the row of the log's head, and locks nothing else
after that: it is the last thing that it does. So entries are numbered without gaps, each has the
hash of the one before, and a transaction that is killed leaves neither its change nor its entry.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, TypeVar

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
from duly.model.payload import check_text
from duly.store import rows
from duly.store.database import Ask, Operation, Row, Start, Value
from duly.store.ids import Ids

T = TypeVar("T")

# Resolution of a token's last use: with a finer one, every request would be a write.
COARSE = timedelta(minutes=1)
LAST = 2**63 - 1


class Use(NamedTuple):
    """A valid token, and whether its time of last use is to be updated."""

    token: Token
    is_news: bool


def create_token(wanted: NewToken, number: int, *, who: str) -> Operation[Token]:
    """Store a token; a repeated call finds its own row."""
    [(now,)] = yield Ask("now")
    if wanted.expires_at is not None and to_us(wanted.expires_at) <= now:
        raise InvalidValue(
            f"expires_at={wanted.expires_at} is in the past; it is {from_us(now)} now"
        )
    values: dict[str, Value] = {
        "id": number,
        "name": wanted.name,
        "role": wanted.role,
        "tenant": wanted.tenant,
        "hash": wanted.hash,
        "created_by": who,
        "expires_at": rows.instant(wanted.expires_at),
    }
    yield Ask("add_token", values)
    found = yield Ask("created_token", {"id": number, "name": wanted.name})
    for token in map(_token, found):
        if token.id == number:
            return token
    if not found:
        raise WrongState("the secret belongs to another token: each token needs its own")
    raise WrongState(
        f'a token "{wanted.name}" exists already: revoke it first, or choose another name'
    )


def find_token(hash_of_secret: str) -> Operation[Use | None]:
    found = yield Ask("token_of_hash", {"hash": hash_of_secret})
    if not found:
        return None
    *row, instant = found[0]
    token, now = _token(tuple(row)), from_us(instant)
    if not token.is_valid(now):
        return None
    used = token.last_used_at
    return Use(token, used is None or now - used >= COARSE)


def use_token(token: Token) -> Operation[None]:
    values = {"id": token.id, "coarse": rows.microseconds(COARSE)}
    yield Ask("use_token", values)


def tokens(*, revoked: bool) -> Operation[list[Token]]:
    found = yield Ask("list_tokens", {"revoked": int(revoked)})
    return [_token(row) for row in found]


def revoke_token(name: str) -> Operation[Token]:
    check_text(name, "name", longest=LONGEST_NAME)
    found = yield Ask("revoke_token", {"name": name})
    if not found:
        raise NotFound(f'there is no token "{name}"; see duly tokens')
    return _token(found[0])


def begin_session(hash_of_secret: str, holder: str, length: timedelta) -> Operation[None]:
    yield Ask("forget_sessions")
    values: dict[str, Value] = {
        "hash": hash_of_secret,
        "holder": holder,
        "length": rows.microseconds(length),
    }
    yield Ask("begin_session", values)


def session_holder(hash_of_secret: str) -> Operation[str | None]:
    found = yield Ask("session_holder", {"hash": hash_of_secret})
    return found[0][0] if found else None


def end_session(hash_of_secret: str) -> Operation[None]:
    yield Ask("end_session", {"hash": hash_of_secret})


def audited(
    start: Start[T], tell: Callable[[T], AuditedAction], *, actor: Actor, ids: Ids
) -> Operation[T]:
    """Run an operation and add its entry to the audit log, in one transaction."""
    [number] = yield from ids.draw(1)
    result = yield from start()
    yield from append(actor, tell(result), number)
    return result


def append(actor: Actor, deed: AuditedAction, number: int) -> Operation[AuditEntry]:
    """Add an audit entry, unless there is one for the same number already."""
    [(last, previous, now)] = yield Ask("hold_audit_head")
    entry = AuditEntry(
        number=last + 1,
        at=from_us(now),
        who=actor.who,
        how=actor.how,
        action=deed.action,
        subject=deed.subject,
        details=deed.text(),
        deed=number,
        previous=previous,
    )
    values: dict[str, Value] = {
        "number": entry.number,
        "at": now,
        "who": entry.who,
        "how": entry.how,
        "action": entry.action,
        "subject": entry.subject,
        "details": entry.details,
        "deed": number,
        "previous": previous,
        "hash": entry.digest(),
    }
    if (yield Ask("add_audit", values)):
        yield Ask("move_audit_head", {"number": entry.number, "hash": entry.digest()})
    [found] = yield Ask("audit_of_deed", {"deed": number})
    return _entry(found)


def audit(
    after: int, before: int | None, limit: int, *, who: str | None, subject: str | None
) -> Operation[list[AuditEntry]]:
    values: dict[str, Value] = {
        "after": after,
        "before": LAST if before is None else before,
        "limit": limit,
    }
    if subject is not None:
        found = yield Ask("audit_about", {**values, "subject": subject, "who": who})
    elif who is not None:
        found = yield Ask("audit_by", {**values, "who": who})
    else:
        found = yield Ask("list_audit", values)
    return [_entry(row) for row in found]


class ChainCheck(NamedTuple):
    """The result of checking a stretch of the audit log's hash chain."""

    number: int  # of its last entry
    hash: str
    broken: int | None = None  # the first entry that was altered
    is_last: bool = False


def look_at_chain(number: int, previous: str, limit: int) -> Operation[ChainCheck]:
    """Check the hash chain of the entries after a number, and that it ends at the log's head."""
    found = yield Ask("audit_chain", {"after": number, "limit": limit})
    for row in found:
        entry = _entry(row)
        if not entry.follows(number, previous):
            return ChainCheck(number, previous, broken=number + 1)
        number, previous = entry.number, entry.hash
    if len(found) == limit:
        return ChainCheck(number, previous)
    heads = yield Ask("audit_head")
    end, hash_there = heads[0] if heads else (0, "")
    if (end, hash_there) == (number, previous):
        return ChainCheck(number, previous, is_last=True)
    return ChainCheck(number, previous, broken=number if end == number else min(end, number) + 1)


def acknowledge(matter: Matter, *, who: str, note: str) -> Operation[Acknowledgement]:
    check_text(note, "note")
    [(now,)] = yield Ask("now")
    if to_us(matter.until) > now:
        raise InvalidValue(
            f"until={matter.until}: the future cannot be acknowledged; it is {from_us(now)} now"
        )
    values: dict[str, Value] = {
        "subject": matter.subject,
        "kind": matter.kind,
        "until": to_us(matter.until),
        "who": who,
        "note": note,
    }
    found = yield Ask("acknowledge", values)
    return _acknowledgement(found[0])


def acknowledged() -> Operation[list[Acknowledgement]]:
    found = yield Ask("list_acknowledgements")
    return [_acknowledgement(row) for row in found]


def forget_acknowledgement(subject: str, kind: str) -> Operation[bool]:
    values: dict[str, Value] = {"subject": subject, "kind": kind}
    return bool((yield Ask("forget_acknowledgement", values)))


def _token(row: Row) -> Token:
    number, name, role, tenant, created_at, created_by, expires, revoked, used = row
    return Token(
        id=number,
        name=name,
        role=role,
        tenant=tenant,
        created_at=from_us(created_at),
        created_by=created_by,
        expires_at=rows.moment(expires),
        revoked_at=rows.moment(revoked),
        last_used_at=rows.moment(used),
    )


def _entry(row: Row) -> AuditEntry:
    number, at, who, how, action, subject, details, deed, previous, hash_there = row
    return AuditEntry(
        number=number,
        at=from_us(at),
        who=who,
        how=how,
        action=action,
        subject=subject,
        details=details,
        deed=deed,
        previous=previous,
        hash=hash_there,
    )


def _acknowledgement(row: Row) -> Acknowledgement:
    subject, kind, until, who, at, note = row
    matter = Matter(subject=subject, kind=kind, until=from_us(until))
    return Acknowledgement(matter=matter, who=who, at=from_us(at), note=note)
