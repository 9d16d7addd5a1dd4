"""Schedules and their due moments, as people see them."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Annotated, Any, Final, Literal, Self

from msgspec import Meta

from duly.durations import say_duration
from duly.errors import DulyError, InvalidValue, NotFound, RuleError
from duly.model.fire import StoredFire
from duly.model.job_filter import Filter
from duly.model.policies import Missed
from duly.model.schedule import Plan, StoredSchedule
from duly.model.schedule_filter import EVERY_SCHEDULE, ScheduleFilter, parse_schedule_filter
from duly.policy.firing import moment_after_end
from duly.policy.redaction import hidden_call
from duly.policy.why import LocalClock
from duly.policy.why.answer import plural
from duly.rules import Budget, On, Rule, Spaced, clock_change_notes, local_time, parse
from duly.store.store import Store
from duly.store.values import RunTimes
from duly.views import Listed, Made, Text, filled
from duly.views.access import own_filter
from duly.views.fires import LATE, Fire, FireView, RunResult, reacts, result_of, with_run

MOST_PREVIEWED = 1_000
PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule: its rule, its task and its current state."""

    name: str
    rule: str
    zone: str | None  # None: the rule names its own, or needs none
    task: str
    args: str  # JSON
    title: str
    queue: str
    tags: tuple[str, ...]
    tenant: str
    submitter: str
    owner: str  # "code", "file", "api", "person"
    paused: bool
    paused_until: datetime | None
    note: str  # why it is paused, or why it cannot fire
    next_at: datetime | None
    runs_left: int | None  # None: without a maximum
    finished: bool
    created_at: datetime
    last: Fire | None  # the latest moment that was dealt with
    plan: Plan  # everything that was asked for

    @classmethod
    def of(cls, schedule: StoredSchedule, last: StoredFire | None) -> "Schedule":
        plan, pause = schedule.plan, schedule.pause
        return filled(
            cls,
            plan,
            schedule,
            owner=plan.owner.value,
            paused=pause is not None,
            paused_until=None if pause is None else pause.until,
            note=schedule.fault or ("" if pause is None else pause.note),
            finished=schedule.is_finished,
            last=None if last is None else Fire.of(last, plan.name, reacts=reacts(plan)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """A schedule: its rule, its task and its current state. Secrets are hidden."""

    name: str
    rule: str
    zone: str | None
    sentence: Annotated[str, Meta(description="The rule in words.")]
    task: str
    args: Any
    title: Text
    queue: str
    priority: int
    tags: tuple[str, ...]
    tenant: str
    submitter: str
    owner: Literal["code", "file", "api", "person"]
    policies: Annotated[dict[str, Any], Meta(description="Policies that differ from the defaults.")]
    paused: bool
    paused_until: datetime | None
    note: Annotated[Text, Meta(description="Why it is paused, or why it cannot be fired.")]
    next_at: datetime | None
    runs_left: Annotated[int | None, Meta(description="Of max_runs; null: without a maximum.")]
    finished: Annotated[bool, Meta(description="Nothing is due any more, unless it is edited.")]
    created_at: datetime
    last: Annotated[FireView | None, Made(FireView.of)]

    @classmethod
    def of(cls, schedule: Schedule, **more: Any) -> Self:
        plan = schedule.plan
        return filled(
            cls,
            schedule,
            plan,
            sentence=in_words(plan),
            args=hidden_call(schedule.task, json.loads(schedule.args)),
            policies=_policies(plan),
            **more,
        )


def _policies(plan: Plan) -> dict[str, Any]:
    policies: dict[str, Any] = json.loads(plan.policies.as_json())
    retry = policies.get("retry")
    return policies if retry is None else policies | {"retry": json.loads(retry)}


async def read_schedule(store: Store, name: str) -> Schedule:
    there = await upcoming_one(store, await store.schedules.get(name))
    latest = await store.ledger.latest([there.id])
    return Schedule.of(there, latest.get(there.id))


async def schedule_list(
    store: Store, wanted: ScheduleFilter, *, after: str, limit: int
) -> list[Schedule]:
    """Matching schedules in name order, starting after the cursor ``after``."""
    found = await matching_schedules(store, wanted, after=after, limit=limit)
    latest = await store.ledger.latest([schedule.id for schedule in found])
    return [Schedule.of(schedule, latest.get(schedule.id)) for schedule in found]


async def matching_schedules(
    store: Store, wanted: ScheduleFilter, *, after: str, limit: int
) -> list[StoredSchedule]:
    """Return matching schedules as they are stored."""
    found: list[StoredSchedule] = []
    while len(found) < limit:
        size = min(limit, PAGE) if wanted == EVERY_SCHEDULE else PAGE
        page = await store.schedules.page(after=after, limit=size)
        found += filter(wanted.means, page)
        if len(page) < size:
            break
        after = page[-1].plan.name
    return await upcoming(store, found[:limit])


async def preview(store: Store, name: str, count: int) -> Sequence[datetime]:
    if not 1 <= count <= MOST_PREVIEWED:
        raise InvalidValue(f"count={count}: from 1 to {MOST_PREVIEWED:,}")
    found = await store.schedules.record(name, limit=1, changes=1)
    return moments_ahead(found.schedule, found.skipped, found.now, count)


def moments_ahead(
    schedule: StoredSchedule, skipped: AbstractSet[datetime], now: datetime, count: int
) -> list[datetime]:
    """Return the next moments of a schedule that are not skipped in advance."""
    kept = schedule.plan.kept
    if isinstance(kept, Spaced):
        next_at = without_skipped(schedule, skipped).next_at
        return [] if next_at is None else [next_at]
    moments: list[datetime] = []
    count = schedule.coming(count)
    with Budget():
        moment = kept.after(max(schedule.cursor, now))
        while len(moments) < count and moment is not None:
            if moment not in skipped:
                moments.append(moment)
            moment = kept.after(moment)
    return moments


def own_zone(plan: Plan) -> str | None:
    """Return the zone in which a plan's moments are shown; None if it has none or is unreadable."""
    try:
        return plan.timing.zone or plan.zone
    except DulyError:
        return None


async def zone_of(store: Store, name: str) -> str | None:
    """Return the zone of a schedule by its name; None if there is no such schedule."""
    try:
        return own_zone((await store.schedules.get(name)).plan)
    except NotFound:
        return None


def policies_in_words(plan: Plan) -> Sequence[str]:
    """Describe the policies in sentences: overlap, catch-up, lateness, jitter and so on."""
    policies = plan.policies
    said = []
    if not isinstance(plan.kept, Spaced | On):
        said = [_OVERLAP[policies.overlap], _missed_in_words(policies.missed)]
    if policies.start_within is not None:
        late = _LATE[policies.late]
        said.append(f"must start within {say_duration(policies.start_within)}, {late}")
    if policies.jitter is not None:
        said.append(f"starts up to {say_duration(policies.jitter)} later, to spread the load")
    if policies.max_runs is not None:
        said.append(f"at most {plural(policies.max_runs, 'run')}")
    if policies.dst != "cron":
        said.append(f'takes clock changes as dst="{policies.dst}"')
    return said


_OVERLAP = {
    "skip": "is skipped while the previous run has not ended",
    "queue_one": "waits for the previous run; only the newest waits",
    "queue_all": "waits for all previous runs",
    "replace": "stops the previous run, if it has not ended",
    "allow": "runs beside the previous run, if it has not ended",
}
_LATE = {"skip": "or is skipped", "run": "or runs late", "hurry": "or goes before others"}


def _missed_in_words(missed: Missed) -> str:
    match missed.policy:
        case "latest":
            return "missed runs are caught up once"
        case "skip":
            return "missed runs are not caught up"
        case "all":
            apart = f", {say_duration(missed.spacing)} apart" if missed.spacing else ""
            return f"missed runs are caught up, the newest {missed.at_most:,}{apart}"


async def upcoming(store: Store, schedules: Sequence[StoredSchedule]) -> list[StoredSchedule]:
    """Return the schedules, each with its next moment that is not skipped."""
    skipped = await store.ledger.skipped_ahead([one.id for one in schedules])
    return [without_skipped(one, skipped.get(one.id, frozenset())) for one in schedules]


async def upcoming_one(store: Store, schedule: StoredSchedule) -> StoredSchedule:
    [found] = await upcoming(store, [schedule])
    return found


def without_skipped(schedule: StoredSchedule, skipped: AbstractSet[datetime]) -> StoredSchedule:
    """Return the schedule with the first of its next moments that is not skipped."""
    moment = schedule.next_at
    if moment not in skipped or schedule.pause is not None or not schedule.plan.is_readable:
        return schedule
    kept = schedule.plan.kept
    with suppress(RuleError), Budget():  # it costs too much: the schedule's fault says so
        while moment is not None and moment in skipped:
            moment = (
                moment_after_end(schedule, moment)
                if isinstance(kept, Spaced)
                else kept.after(moment)
            )
    return replace(schedule, next_at=moment)


async def schedule_named(store: Store, name: str) -> StoredSchedule:
    """Return the schedule, with its next due moment that is not skipped."""
    try:
        return await upcoming_one(store, await store.schedules.get(name))
    except NotFound as unknown:
        raise await _what_it_is(store, name) or unknown from None


async def _what_it_is(store: Store, name: str) -> NotFound | None:
    """Return an error that explains why no schedule has this name, if the reason is known."""
    try:
        changes = await store.schedules.changes(name, limit=1)
    except NotFound:
        changes = []
    if changes:
        [(at, who, _)] = changes
        by = f" by {who}" if who else ""
        when = LocalClock("UTC", at).whole(at)
        return NotFound(f'there is no schedule "{name}" any more: it was removed {when}{by}')
    known = any(name in worker.tasks for worker in await store.work.living())
    if known or await store.jobs.count(Filter(task=name), at_most=1):
        jobs = f"duly jobs {quote(f'task:{name}')}"
        return NotFound(f'there is no schedule "{name}"; it is a task: {jobs}')
    return None


@dataclass(frozen=True, slots=True)
class MomentView:
    """A moment, and the local time in the zone of its rule."""

    at: datetime
    local: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleView:
    """A rule in words, its next moments, and notes on DST."""

    sentence: str
    zone: Annotated[str | None, Meta(description="The zone of the times; null: it needs none.")]
    items: list[MomentView]
    notes: Annotated[Sequence[str], Meta(description="The effect of clock changes.")]
    next: None = None

    @classmethod
    def of(
        cls, sentence: str, zone: str | None, moments: Iterable[datetime], notes: Sequence[str] = ()
    ) -> "RuleView":
        items = [MomentView(at, local_time(at, zone or "UTC").isoformat()) for at in moments]
        return cls(sentence=sentence, zone=zone, items=items, notes=notes)


async def rule_facts(
    store: Store, text: str, *, zone: str | None, dst: str = "cron", count: int = 10
) -> RuleView:
    """Evaluate a rule that a caller typed. It runs in a thread, since it may take a second."""
    now = await store.diagnostics.now()
    return await asyncio.to_thread(_rule_facts, text, now, zone=zone, dst=dst, count=count)


def _rule_facts(text: str, now: datetime, *, zone: str | None, dst: str, count: int) -> RuleView:
    with Budget():
        return _facts_of(parse(text, zone=zone, dst=dst), now, zone=zone, count=count)


def _facts_of(rule: Rule | Spaced, now: datetime, *, zone: str | None, count: int) -> RuleView:
    if isinstance(rule, Spaced):
        after = rule.after_end(now)
        moments = [] if after is None else [after]
        return RuleView.of(rule.explain(), None, moments)
    moments = list(rule.between(now, datetime.max.replace(tzinfo=UTC), count))
    return RuleView.of(rule.explain(), rule.zone or zone, moments, clock_change_notes(rule, now))


async def schedule_moments(store: Store, name: str, *, count: int) -> RuleView:
    """Return the rule and next moments of a schedule, without excluded or skipped moments."""
    found = await store.schedules.record(name, limit=1, changes=1)
    plan = found.schedule.plan
    kept = plan.kept
    moments = moments_ahead(found.schedule, found.skipped, found.now, count)
    notes = clock_change_notes(kept, found.now)
    zone = plan.shown_zone if isinstance(kept, Rule) else None
    return RuleView.of(kept.explain(), zone, moments, notes)


ROWS: Final = 40
RECENT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentFire:
    fire: Fire
    kept: RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    schedule: Schedule  # its ``last`` is that of ``recent``
    words: str  # its rule, as a sentence
    overdue: datetime | None  # when its oldest run was due that no scheduler has fired
    zone: str | None
    recent: Sequence[RecentFire]  # the oldest first


async def schedule_rows(
    store: Store, words: str, *, tenant: str | None = None, after: str = "", limit: int = ROWS
) -> Listed[ScheduleRow]:
    """Matching schedules in name order, starting after the cursor ``after``."""
    wanted = own_filter(parse_schedule_filter(words), tenant)
    found = await matching_schedules(store, wanted, after=after, limit=limit + 1)
    shown = found[:limit]
    now = await store.diagnostics.now()
    recent = await _recent(store, shown)
    return Listed(
        items=[
            ScheduleRow(
                schedule=Schedule.of(one, None),
                words=in_words(one.plan),
                overdue=one.overdue_at(now),
                zone=own_zone(one.plan),
                recent=recent[one.id],
            )
            for one in shown
        ],
        next=shown[-1].plan.name if len(found) > limit else None,
    )


def in_words(plan: Plan) -> str:
    """Describe the rule in a sentence, or say why this version cannot read it."""
    try:
        return plan.kept.explain()
    except DulyError as error:
        return f"This version of duly cannot read it: {error}"


def outcome_word(fire: Fire) -> str:
    """Return the state of the run's job if it is known, else the outcome of the run."""
    return fire.state or fire.outcome


async def _recent(
    store: Store, schedules: Sequence[StoredSchedule]
) -> Mapping[int, Sequence[RecentFire]]:
    """Return the last runs of each schedule with the results of their jobs, in two queries."""
    found = await store.ledger.recent([one.id for one in schedules], limit=RECENT)
    jobs = [fire.job_id for fires in found.values() for fire in fires if fire.job_id is not None]
    runs = await store.activity.runs_of(jobs) if jobs else {}
    return {
        one.id: [
            _seen(fire, one.plan, runs.get(fire.job_id or 0)) for fire in reversed(found[one.id])
        ]
        for one in schedules
    }


def _seen(fire: StoredFire, plan: Plan, run: RunTimes | None) -> RecentFire:
    told = with_run(Fire.of(fire, plan.name, reacts=reacts(plan)), run)
    late = (told.lateness or timedelta()) > LATE
    state = None if run is None else run.state
    return RecentFire(fire=told, kept=result_of(fire.outcome, fire.cause, state, late=late))
