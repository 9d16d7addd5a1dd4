"""The audit log: one short entry for each change, without secrets, in a chain of hashes.

A transaction that adds to the log locks the row of the log's head, and locks nothing else after
that: it is the last thing that it does. So entries are numbered without gaps, each has the hash of
the one before, and a transaction that is killed leaves neither its change nor its entry. A change
must not fail because its description is long: long values are cut.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

from duly.errors import PayloadError
from duly.instants import from_us
from duly.model.access import Acknowledgement, Actor, AuditedAction, AuditEntry, Token
from duly.model.columns import reader
from duly.model.event import Emitted
from duly.model.fire import Backfill
from duly.model.limit import Queue
from duly.model.schedule import Plan
from duly.policy.redaction import redacted
from duly.store import rows
from duly.store.database import Ask, Operation, Start, Value
from duly.store.ids import Ids
from duly.store.values import LimitStep, QueueStep, ScheduleStep, Settled, Settlement, Step

T = TypeVar("T")

LAST = 2**63 - 1
LONGEST: Final = 500
SHORTER: Final = 40  # so long may all of them be, and it is little in all
MOST: Final = 20

_OF_A_PLAN = ("rule", "zone", "task", "owner")


def entry(action: str, subject: str, **details: object) -> AuditedAction:
    """Return an entry; details that are ``None``, empty texts and empty lists are left out."""
    said = {name: value for name, value in details.items() if value not in (None, "", [])}
    try:
        return AuditedAction(action, subject, {name: _short(said[name], LONGEST) for name in said})
    except PayloadError:
        return AuditedAction(action, subject, {name: _short(said[name], SHORTER) for name in said})


def added(plans: Sequence[Plan]) -> AuditedAction:
    if len(plans) != 1:
        return entry("schedules.add", "schedules", names=[plan.name for plan in plans])
    values = rows.plan_values(plans[0])
    return entry(
        "schedules.add", schedule(plans[0].name), **{name: values[name] for name in _OF_A_PLAN}
    )


def edited(name: str, old: Plan, new: Plan) -> AuditedAction:
    before, after = rows.plan_values(old), rows.plan_values(new)
    changed = [key for key in before if before[key] != after[key]]
    was, now = rows.open_values(old), rows.open_values(new)
    return entry(
        "schedules.edit",
        schedule(name),
        was={key: was[key] for key in changed},
        now={key: now[key] for key in changed},
    )


def settled(settlements: Sequence[Settlement]) -> Callable[[Settled], AuditedAction]:
    """Return a function that lists the settled jobs by outcome; their number is bounded."""

    def tell(written: Settled) -> AuditedAction:
        said: dict[str, list[int]] = {}
        for one in settlements:
            if one.job.id in written.kept and one.job.id not in written.before:
                said.setdefault(one.outcome, []).append(one.job.id)
        numbers = [number for several in said.values() for number in several]
        return AuditedAction(
            "jobs.settle", f"job:{numbers[0]}" if len(numbers) == 1 else "jobs", said
        )

    return tell


def backfilled(done: Backfill, *, again: bool) -> AuditedAction:
    return entry(
        "schedules.backfill",
        schedule(done.schedule),
        start=done.start,
        end=done.end,
        jobs=len(done.jobs),
        again=again or None,
    )


def applied(file: str, steps: Sequence[Step]) -> AuditedAction:
    return entry(
        "apply",
        f"file:{file}",
        schedules=[step.name for step in steps if isinstance(step, ScheduleStep)],
        queues=[step.queue.name for step in steps if isinstance(step, QueueStep)],
        limits=[step.rule.name for step in steps if isinstance(step, LimitStep)],
    )


def emitted(events: Sequence[Emitted]) -> AuditedAction:
    if len(events) != 1:
        return entry("events.emit", "events", names=[event.name for event in events])
    return entry("events.emit", f"event:{events[0].name}", key=events[0].key)


def queue_set(queue: Queue) -> AuditedAction:
    return entry(
        "queues.set",
        f"queue:{queue.name}",
        paused=queue.paused,
        note=queue.note,
        concurrency=queue.concurrency,
        rate=queue.rate,
        fair=queue.fair,
    )


def token_created(token: Token) -> AuditedAction:
    return entry(
        "tokens.create",
        f"token:{token.name}",
        role=token.role,
        tenant=token.tenant,
        expires_at=token.expires_at,
    )


def token_revoked(token: Token) -> AuditedAction:
    return entry("tokens.revoke", f"token:{token.name}", role=token.role)


def acknowledged(done: Acknowledgement) -> AuditedAction:
    matter = done.matter
    return entry(
        "needs.acknowledge", matter.subject, kind=matter.kind, until=matter.until, note=done.note
    )


def schedule(name: str) -> str:
    return f"schedule:{name}"


def _short(value: object, longest: int) -> object:
    match value:
        case None | bool() | int():
            return value
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case Mapping():
            return {str(key): _short(one, longest) for key, one in value.items()}
        case list() | tuple():
            more = [f"… and {len(value) - MOST} more"] if len(value) > MOST else []
            return [*(_short(one, longest) for one in value[:MOST]), *more]
        case _:
            text = redacted(str(value))
            return text if len(text) <= longest else f"{text[:longest]}…"


def audited(
    start: Start[T], tell: Callable[[T], AuditedAction], *, actor: Actor, ids: Ids
) -> Operation[T]:
    """Run an operation and add its entry to the audit log, in one transaction."""
    [number] = yield from ids.draw(1)
    result = yield from start()
    yield from append(actor, tell(result), number)
    return result


def append(actor: Actor, action: AuditedAction, number: int) -> Operation[AuditEntry]:
    """Add an audit entry, unless there is one for the same number already."""
    [(last, previous, now)] = yield Ask("hold_audit_head")
    entry = AuditEntry(
        number=last + 1,
        at=from_us(now),
        who=actor.who,
        how=actor.how,
        action=action.action,
        subject=action.subject,
        details=action.text(),
        deed=number,
        previous=previous,
    )
    if (yield Ask("add_audit", {**asdict(entry), "at": now, "hash": entry.digest()})):
        yield Ask("move_audit_head", {"number": entry.number, "hash": entry.digest()})
    [found] = yield Ask("audit_of_deed", {"deed": number})
    return _read(found)


def listed(
    *,
    after: int = 0,
    before: int | None = None,
    limit: int = 100,
    who: str | None = None,
    subject: str | None = None,
) -> Operation[list[AuditEntry]]:
    """Return the entries with numbers between ``after`` and ``before``, the newest first."""
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
    return [_read(row) for row in found]


class ChainCheck(NamedTuple):
    """The result of checking a stretch of the audit log's hash chain."""

    number: int  # of its last entry
    hash: str
    broken: int | None = None  # the first entry that was altered
    is_last: bool = False


def check_chain(number: int, previous: str, limit: int) -> Operation[ChainCheck]:
    """Check the hash chain of the entries after a number, and that it ends at the log's head."""
    found = yield Ask("audit_chain", {"after": number, "limit": limit})
    for row in found:
        entry = _read(row)
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


_read = reader(AuditEntry)
