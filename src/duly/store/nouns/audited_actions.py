"""Entries of the audit log: one short description for each kind of change, without secrets.

A change must not fail because its description is long: long values are cut.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from duly.errors import PayloadError
from duly.model.access import Acknowledgement, AuditedAction, Token
from duly.model.event import Emitted
from duly.model.fire import Backfill
from duly.model.queue import Queue
from duly.model.schedule import Plan
from duly.policy.redaction import redacted
from duly.store import rows
from duly.store.values import LimitStep, QueueStep, ScheduleStep, Settled, Settlement, Step

LONGEST: Final = 500
SHORTER: Final = 40  # so long may all of them be, and it is little in all
MOST: Final = 20

_OF_A_PLAN = ("rule", "zone", "task", "owner")


def deed(action: str, subject: str, **details: object) -> AuditedAction:
    """Return an entry; details that are ``None``, empty texts and empty lists are left out."""
    said = {name: value for name, value in details.items() if value not in (None, "", [])}
    try:
        return AuditedAction(action, subject, {name: _short(said[name], LONGEST) for name in said})
    except PayloadError:
        return AuditedAction(action, subject, {name: _short(said[name], SHORTER) for name in said})


def constant(action: str, subject: str, **details: object) -> Callable[[object], AuditedAction]:
    """Return a function that makes the same entry whatever the change returned.

    The entry is made when the change is done: if it cannot be made, the change is refused.
    """
    return lambda _: deed(action, subject, **details)


def added(plans: Sequence[Plan]) -> AuditedAction:
    if len(plans) != 1:
        return deed("schedules.add", "schedules", names=[plan.name for plan in plans])
    values = rows.plan_values(plans[0])
    return deed(
        "schedules.add", schedule(plans[0].name), **{name: values[name] for name in _OF_A_PLAN}
    )


def edited(name: str, old: Plan, new: Plan) -> AuditedAction:
    before, after = rows.plan_values(old), rows.plan_values(new)
    changed = [key for key in before if before[key] != after[key]]
    was, now = rows.open_values(old), rows.open_values(new)
    return deed(
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
    return deed(
        "schedules.backfill",
        schedule(done.schedule),
        start=done.start,
        end=done.end,
        jobs=len(done.jobs),
        again=again or None,
    )


def applied(file: str, steps: Sequence[Step]) -> AuditedAction:
    return deed(
        "apply",
        f"file:{file}",
        schedules=[step.name for step in steps if isinstance(step, ScheduleStep)],
        queues=[step.queue.name for step in steps if isinstance(step, QueueStep)],
        limits=[step.rule.name for step in steps if isinstance(step, LimitStep)],
    )


def emitted(events: Sequence[Emitted]) -> AuditedAction:
    if len(events) != 1:
        return deed("events.emit", "events", names=[event.name for event in events])
    return deed("events.emit", f"event:{events[0].name}", key=events[0].key)


def queue_set(queue: Queue) -> Callable[[object], AuditedAction]:
    return constant(
        "queues.set",
        f"queue:{queue.name}",
        paused=queue.paused,
        note=queue.note,
        concurrency=queue.concurrency,
        rate=queue.rate,
        fair=queue.fair,
    )


def token_created(token: Token) -> AuditedAction:
    return deed(
        "tokens.create",
        f"token:{token.name}",
        role=token.role,
        tenant=token.tenant,
        expires_at=token.expires_at,
    )


def token_revoked(token: Token) -> AuditedAction:
    return deed("tokens.revoke", f"token:{token.name}", role=token.role)


def acknowledged(done: Acknowledgement) -> AuditedAction:
    matter = done.matter
    return deed(
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
