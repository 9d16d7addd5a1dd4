"""Reactions: what a schedule with an ``on …`` rule does about an event.

The decision is one of four: None, because the event does not match; a job to start, with the
arguments, the key and the moment that the event gives; the withdrawal of a job that an earlier
event started; or a skip, with the reason for the ledger. An event that lacks a field is skipped
with that reason, never dropped silently.

The arguments of such a schedule say where each value comes from: ``{"$event": "doc_id"}`` is a
field of the event. With ``"optional": true`` the field may be missing; then ``"default"`` is used,
if there is one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from duly.errors import DulyError, InvalidValue
from duly.model.event import StoredEvent
from duly.model.fire import Cause
from duly.model.job import JobRequest, is_built_in
from duly.model.limit import rendered_limits
from duly.model.payload import check_text, decode, encode, storable
from duly.model.policies import check_moment
from duly.model.schedule import Plan, StoredSchedule
from duly.model.template import names_in, render, render_title
from duly.policy import sentences
from duly.policy.overlap import HURRIED
from duly.rules import On
from duly.rules.event_rule import matches

FIELD: Final = "$event"
LONGEST_SAID: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob:
    """Start a job for the event."""

    event: StoredEvent
    schedule: StoredSchedule
    call: JobRequest
    moment: datetime  # the earliest start
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """Cancel the job that an earlier event started under the key, if it has not begun."""

    event: StoredEvent
    schedule: StoredSchedule
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipEvent:
    """Start nothing, for the given reason."""

    event: StoredEvent
    schedule: StoredSchedule
    cause: Cause
    reason: str


Reaction: TypeAlias = StartJob | Withdrawal | SkipEvent
LastWords: TypeAlias = Mapping[tuple[str, str], StoredEvent]  # by tenant and key


def reaction(
    event: StoredEvent, schedule: StoredSchedule, now: datetime, *, replayed: bool = False
) -> Reaction | None:
    """Return what the schedule does about the event; None if the event does not match.

    With ``replayed``, a person asked for the event: it counts even if it is older than the schedule
    or fell into a pause.
    """
    others = schedule.plan.tenant and not may_touch(event, schedule.plan.tenant)
    if others or (event.at < schedule.created_at and not replayed):
        return None
    try:
        timing = _timing(schedule.plan)
        if timing.unless is not None and matches(timing.unless, event.name):
            key = key_of(event, schedule.plan, timing)
            return Withdrawal(event=event, schedule=schedule, key=key or "")
        if not matches(timing.pattern, event.name):
            return None
        if not replayed and _in_pause(schedule, event.at):
            return skipped(event, schedule, Cause.PAUSED, sentences.paused(schedule))
        return _start(event, schedule, timing, now)
    except DulyError as error:
        return skipped(event, schedule, Cause.REFUSED, str(error))


def may_touch(event: StoredEvent, tenant: str) -> bool:
    """Return whether an event may affect a tenant's job: an event of another tenant may not."""
    return event.tenant in ("", tenant)


def is_meant(event: StoredEvent, plan: Plan) -> bool:
    """Return whether the event matches the schedule; True for a rule that cannot be read."""
    timing = plan.reaction
    if timing is None:
        return True
    meant = (timing.pattern, *((timing.unless,) if timing.unless is not None else ()))
    return any(matches(pattern, event.name) for pattern in meant)


def last_words(schedule: StoredSchedule, events: Iterable[StoredEvent]) -> LastWords:
    """Return the last withdrawing event for each tenant and key."""
    timing, last = schedule.plan.reaction, dict[tuple[str, str], StoredEvent]()
    if timing is None or timing.unless is None:
        return last
    for event in events:
        if not matches(timing.unless, event.name):
            continue
        try:
            about = event.tenant, key_of(event, schedule.plan, timing) or ""
        except DulyError:  # the reaction to the event itself records the error in the ledger
            continue
        if about not in last or last[about].place < event.place:
            last[about] = event
    return last


def called_off(start: StartJob, last: LastWords) -> StoredEvent | None:
    """Return the last later event that withdraws the job; None if there is none."""
    key = start.call.key or ""
    said = [last.get((tenant, key)) for tenant in {"", start.call.tenant}]
    behind = [one for one in said if one is not None and one.place > start.event.place]
    return max(behind, key=lambda one: one.place, default=None)


def skipped(event: StoredEvent, schedule: StoredSchedule, cause: Cause, reason: str) -> SkipEvent:
    said = storable(reason, LONGEST_SAID)
    return SkipEvent(event=event, schedule=schedule, cause=cause, reason=said)


def happened(event: StoredEvent) -> str:
    """``invoice.paid (event 7)``."""
    return f"{event.name} (event {event.id})"


def key_of(event: StoredEvent, plan: Plan, timing: On) -> str | None:
    """Return the key of the event for this schedule; None if the rule has no key.

    The key of an event with a tenant has the tenant in front, because tenants may use equal keys;
    a schedule of one tenant does not need that.
    """
    key = _said_key(event, timing)
    if key is None or plan.tenant or not event.tenant:
        return key
    return check_text(f"{event.tenant}:{key}", "the tenant and the key together")


def _said_key(event: StoredEvent, timing: On) -> str | None:
    if timing.key is None:
        return None
    fields = event.fields
    for name in names_in(timing.key):
        if name not in fields:
            raise InvalidValue(
                f'{happened(event)} has no field "{name}", which key="{timing.key}" names'
            )
    key = check_text(render(timing.key, fields), f'key="{timing.key}"')
    if not key:
        raise InvalidValue(f'key="{timing.key}" is empty for {happened(event)}')
    return key


def filled(event: StoredEvent, plan: Plan) -> dict[str, Any]:
    """Return the arguments, with the fields of the event filled in."""
    fields, args = event.fields, dict[str, Any]()
    for name, value in decode(plan.args).items():
        if not is_field(value):
            args[name] = value
        elif value[FIELD] in fields:
            args[name] = fields[value[FIELD]]
        elif "default" in value:
            args[name] = value["default"]
        elif not value.get("optional"):
            raise InvalidValue(
                f'{happened(event)} has no field "{value[FIELD]}", which {plan.task} takes'
            )
    return args


def is_field(value: object) -> bool:
    """Return whether an argument stands for a field of an event."""
    return isinstance(value, dict) and FIELD in value


def _timing(plan: Plan) -> On:
    timing = plan.timing
    if not isinstance(timing, On):
        raise InvalidValue(f'"{plan.rule}" cannot be read as a reaction to events')
    return timing


def _in_pause(schedule: StoredSchedule, moment: datetime) -> bool:
    pause = schedule.pause
    if pause is None or moment < pause.since:
        return False
    return pause.until is None or moment < pause.until


def _start(
    event: StoredEvent, schedule: StoredSchedule, timing: On, now: datetime
) -> StartJob | SkipEvent:
    plan, policies = schedule.plan, schedule.plan.policies
    args, moment = filled(event, plan), _moment(event, timing)
    within, priority = policies.start_within, plan.priority
    if within is not None and now > moment + within:
        if policies.late == "skip":
            return skipped(event, schedule, Cause.LATE, sentences.late(within))
        within, priority = None, max(priority, HURRIED) if policies.late == "hurry" else priority
    of_event = {
        "args": encode(args),
        "priority": priority,
        "tenant": plan.tenant or event.tenant,
        "submitter": event.submitter or plan.submitter,
        "title": _title(plan.title, args) or (plan.name if is_built_in(plan.task) else ""),
        "limits": rendered_limits(plan.limits, args),
    }
    call = JobRequest(
        **plan.shared_fields | of_event,
        run_after=moment,
        key=key_of(event, plan, timing),
        start_within=within,
        late=policies.late,
        retry=policies.retry,
    )
    runs = f"; runs {sentences.shown_whole(moment, plan)}" if moment > now else ""
    return StartJob(
        event=event,
        schedule=schedule,
        call=call,
        moment=moment,
        reason=f"{happened(event)}{runs}",
    )


def _moment(event: StoredEvent, timing: On) -> datetime:
    """Return the earliest start of the job; a moment in the past means now."""
    if timing.debounce is not None:
        return event.at + timing.debounce
    after = timing.run_after
    if after is None:
        return event.at
    start = event.at if after.field is None else _moment_in(event, after.field)
    try:
        moment = start + after.length
    except OverflowError:
        raise InvalidValue(f"{happened(event)}: {after} is beyond all time") from None
    check_moment(str(after), moment)
    return moment


def _moment_in(event: StoredEvent, field: str) -> datetime:
    fields = event.fields
    if field not in fields:
        raise InvalidValue(f'{happened(event)} has no field "{field}", from which run_after counts')
    value = fields[field]
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidValue(
            f"{happened(event)}: its {field}, {value!r:.100}, is not a time with an offset, as "
            '"2026-12-24T18:00+01:00"'
        )
    check_moment(field, moment)
    return moment


def _title(template: str, known: Mapping[str, Any]) -> str:
    """Render the title; a title that cannot be rendered is left out, so that the job still runs."""
    try:
        return render_title(template, known)
    except InvalidValue:
        return ""
