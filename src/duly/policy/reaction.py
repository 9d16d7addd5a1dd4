"""What becomes of an event: for each schedule that reacts to events, one decision.

Facts go in, and one of four things comes out: nothing, because the event is not meant; a start,
with the arguments, the key and the moment that the event gives; a withdrawal of what an earlier
event has started; or a reason why nothing is started, for the ledger. What lacks something is told
there, and never lost.

In the arguments of such a schedule stands where each comes from: ``{"$event": "doc_id"}`` is a
field of the event. With ``"optional": true`` it may be missing; then ``"default"``, if there is
one, is taken.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from duly.errors import DulyError, InvalidValue
from duly.model.event import Event, matches
from duly.model.fire import Cause
from duly.model.job import Call, is_built_in
from duly.model.limit import rendered_lanes
from duly.model.payload import check_text, decode, encode, storable
from duly.model.policies import check_moment
from duly.model.schedule import Plan, StoredSchedule
from duly.model.template import names_in, render, render_title
from duly.policy import sentences
from duly.policy.overlap import HURRIED
from duly.rules import On

FIELD: Final = "$event"
LONGEST_SAID: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob:
    """A job is to run for the event."""

    event: Event
    schedule: StoredSchedule
    call: Call
    moment: datetime  # from when on
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """What an earlier event has started under the key is called off, if it has not begun."""

    event: Event
    schedule: StoredSchedule
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipEvent:
    """Nothing is started, and this is why."""

    event: Event
    schedule: StoredSchedule
    cause: Cause
    reason: str


Reaction: TypeAlias = StartJob | Withdrawal | SkipEvent
LastWords: TypeAlias = Mapping[tuple[str, str], Event]  # by who says it, and the key


def reaction(
    event: Event, schedule: StoredSchedule, now: datetime, *, replayed: bool = False
) -> Reaction | None:
    """What the schedule does about the event. None: it is not meant.

    ``replayed``: somebody asks for it, also for what was before the schedule or in a pause.
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


def may_touch(event: Event, tenant: str) -> bool:
    """Whether an event may do something to what is a tenant's: another tenant's may not."""
    return event.tenant in ("", tenant)


def is_meant(event: Event, plan: Plan) -> bool:
    """Whether a schedule has anything to say about an event; what cannot be read says so."""
    timing = plan.reaction
    if timing is None:
        return True
    meant = (timing.pattern, *((timing.unless,) if timing.unless is not None else ()))
    return any(matches(pattern, event.name) for pattern in meant)


def last_words(schedule: StoredSchedule, events: Iterable[Event]) -> LastWords:
    """Of the events that withdraw what the schedule starts, the last one about each thing."""
    timing, last = schedule.plan.reaction, dict[tuple[str, str], Event]()
    if timing is None or timing.unless is None:
        return last
    for event in events:
        if not matches(timing.unless, event.name):
            continue
        try:
            about = event.tenant, key_of(event, schedule.plan, timing) or ""
        except DulyError:  # it says so itself, in the ledger
            continue
        if about not in last or last[about].place < event.place:
            last[about] = event
    return last


def called_off(start: StartJob, last: LastWords) -> Event | None:
    """The event behind it that withdraws what it would start; of several, the last."""
    key = start.call.key or ""
    said = [last.get((tenant, key)) for tenant in {"", start.call.tenant}]
    behind = [one for one in said if one is not None and one.place > start.event.place]
    return max(behind, key=lambda one: one.place, default=None)


def skipped(event: Event, schedule: StoredSchedule, cause: Cause, reason: str) -> SkipEvent:
    said = storable(reason, LONGEST_SAID)
    return SkipEvent(event=event, schedule=schedule, cause=cause, reason=said)


def happened(event: Event) -> str:
    """``invoice.paid (event 7)``."""
    return f"{event.name} (event {event.id})"


def key_of(event: Event, plan: Plan, timing: On) -> str | None:
    """What the event is about, for this schedule. Debounced without a key, all are about one.

    Tenants count from 1 each: what two of them say is never about the same, unless the schedule is
    one tenant's own.
    """
    key = _said_key(event, timing)
    if key is None or plan.tenant or not event.tenant:
        return key
    return check_text(f"{event.tenant}:{key}", "the tenant and the key together")


def _said_key(event: Event, timing: On) -> str | None:
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


def filled(event: Event, plan: Plan) -> dict[str, Any]:
    """The arguments, with what comes from the event."""
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
    """Whether it stands for a field of an event."""
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
    event: Event, schedule: StoredSchedule, timing: On, now: datetime
) -> StartJob | SkipEvent:
    plan, policies = schedule.plan, schedule.plan.policies
    args, moment = filled(event, plan), _moment(event, timing)
    within, priority = policies.start_within, plan.priority
    if within is not None and now > moment + within:
        if policies.late == "skip":
            return skipped(event, schedule, Cause.LATE, sentences.late(within))
        within, priority = None, max(priority, HURRIED) if policies.late == "hurry" else priority
    call = Call(
        task=plan.task,
        args=encode(args),
        queue=plan.queue,
        priority=priority,
        tenant=plan.tenant or event.tenant,
        submitter=event.submitter or plan.submitter,
        title=_title(plan.title, args) or (plan.name if is_built_in(plan.task) else ""),
        tags=plan.tags,
        owner=plan.owner,
        version=plan.version,
        limits=rendered_lanes(plan.limits, args),
        needs=plan.needs,
        terms=plan.terms,
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


def _moment(event: Event, timing: On) -> datetime:
    """From when on its job may run. What has passed is for now."""
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


def _moment_in(event: Event, field: str) -> datetime:
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
            f"{happened(event)}: its {field}, {value!r:.100}, is not a moment with an offset, as "
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
