"""Schedules and their due moments, as people see them."""

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Final

from duly.durations import say_duration
from duly.errors import DulyError, InvalidValue, NotFound, RuleError
from duly.model.fire import StoredFire
from duly.model.job_filter import Filter
from duly.model.policies import Missed
from duly.model.schedule import Plan, StoredSchedule
from duly.model.schedule_filter import EVERY_SCHEDULE, ScheduleFilter, parse_schedule_filter
from duly.policy.firing import moment_after_end
from duly.policy.why import LocalClock
from duly.rules import Budget, On, Rule, Spaced, clock_change_notes, parse
from duly.store.store import Store
from duly.store.values import RunTimes
from duly.views.fires import LATE, Fire, Kept, kept_word, reacts, with_run

MOST_PREVIEWED = 1_000
PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A rule about time, what it runs, and where it stands."""

    name: str
    rule: str
    zone: str | None  # None: the rule names its own, or needs none
    task: str
    args: str  # JSON
    title: str
    queue: str
    tags: tuple[str, ...]
    owner: str  # "code", "file", "api", "person"
    paused: bool
    paused_until: datetime | None
    note: str  # why it is paused, or why it stands still
    next_at: datetime | None
    created_at: datetime
    last: Fire | None  # the latest moment that was dealt with
    plan: Plan  # everything that was asked for

    @classmethod
    def of(cls, schedule: StoredSchedule, last: StoredFire | None) -> "Schedule":
        plan, pause = schedule.plan, schedule.pause
        return cls(
            name=plan.name,
            rule=plan.rule,
            zone=plan.zone,
            task=plan.task,
            args=plan.args,
            title=plan.title,
            queue=plan.queue,
            tags=plan.tags,
            owner=plan.owner.value,
            paused=pause is not None,
            paused_until=None if pause is None else pause.until,
            note=schedule.fault or ("" if pause is None else pause.note),
            next_at=schedule.next_at,
            created_at=schedule.created_at,
            last=None if last is None else Fire.of(last, plan.name, reacts=reacts(plan)),
            plan=plan,
        )


async def found(store: Store, name: str) -> Schedule:
    there = await upcoming_one(store, await store.schedules.get(name))
    latest = await store.ledger.latest([there.id])
    return Schedule.of(there, latest.get(there.id))


async def listed(store: Store, wanted: ScheduleFilter, *, after: str, limit: int) -> list[Schedule]:
    """Those that are meant, by name, behind the name ``after``."""
    found = await meant(store, wanted, after=after, limit=limit)
    latest = await store.ledger.latest([schedule.id for schedule in found])
    return [Schedule.of(schedule, latest.get(schedule.id)) for schedule in found]


async def meant(
    store: Store, wanted: ScheduleFilter, *, after: str, limit: int
) -> list[StoredSchedule]:
    """The same, as the store knows them."""
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
    schedule = await upcoming_one(store, await store.schedules.get(name))
    kept = schedule.plan.kept
    if isinstance(kept, Spaced):
        return [] if schedule.next_at is None else [schedule.next_at]
    now = max(schedule.cursor, (await store.upkeep.progress()).now)
    skipped = (await store.ledger.skipped_ahead([schedule.id])).get(schedule.id, ())
    moments: list[datetime] = []
    with Budget():
        moment = kept.after(now)
        while len(moments) < count and moment is not None:
            if moment not in skipped:
                moments.append(moment)
            moment = kept.after(moment)
    return moments


def own_zone(plan: Plan) -> str | None:
    """The zone that its moments are shown in, if it has one, and can be read."""
    try:
        return plan.timing.zone or plan.zone
    except DulyError:
        return None


async def zone_of(store: Store, name: str) -> str | None:
    """The same of a schedule by its name, which may have been removed."""
    try:
        return own_zone((await store.schedules.get(name)).plan)
    except NotFound:
        return None


def policies_in_words(plan: Plan) -> Sequence[str]:
    """What it does when the world does not fit the plan."""
    policies = plan.policies
    said = []
    if not isinstance(plan.kept, Spaced | On):
        said = [_OVERLAP[policies.overlap], _missed_in_words(policies.missed)]
    if policies.start_within is not None:
        late = _LATE[policies.late]
        said.append(f"must start within {say_duration(policies.start_within)}, {late}")
    if policies.jitter is not None:
        said.append(f"starts up to {say_duration(policies.jitter)} later, to spread the load")
    if policies.dst != "cron":
        said.append(f'takes clock changes as dst="{policies.dst}"')
    return said


_OVERLAP = {
    "skip": "skips its moment while the run before has not ended",
    "queue_one": "waits for the run before, the newest moment only",
    "queue_all": "waits for the runs before",
    "replace": "stops the run before, if that has not ended",
    "allow": "runs beside the run before, if that has not ended",
}
_LATE = {"skip": "or is skipped", "run": "or runs late", "hurry": "or goes before others"}


def _missed_in_words(missed: Missed) -> str:
    match missed.policy:
        case "latest":
            return "missed moments are made up for once"
        case "skip":
            return "missed moments are not made up for"
        case "all":
            apart = f", {say_duration(missed.spacing)} apart" if missed.spacing else ""
            return f"missed moments are made up for, the newest {missed.at_most:,}{apart}"


async def upcoming(store: Store, schedules: Sequence[StoredSchedule]) -> list[StoredSchedule]:
    """The schedules, each with the next moment that will be kept."""
    skipped = await store.ledger.skipped_ahead([one.id for one in schedules])
    return [beyond(one, skipped.get(one.id, frozenset())) for one in schedules]


async def upcoming_one(store: Store, schedule: StoredSchedule) -> StoredSchedule:
    [found] = await upcoming(store, [schedule])
    return found


def beyond(schedule: StoredSchedule, skipped: AbstractSet[datetime]) -> StoredSchedule:
    """The schedule with the first of its next moments that is not among the skipped ones."""
    moment = schedule.next_at
    if moment not in skipped or schedule.pause is not None or not schedule.plan.is_readable:
        return schedule
    kept = schedule.plan.kept
    with suppress(RuleError), Budget():  # it costs too much: the schedule's fault says so
        while moment is not None and moment in skipped:
            moment = (
                moment_after_end(schedule.plan, moment)
                if isinstance(kept, Spaced)
                else kept.after(moment)
            )
    return replace(schedule, next_at=moment)


async def schedule_named(store: Store, name: str) -> StoredSchedule:
    """The schedule, with the next moment that nobody has skipped."""
    try:
        return await upcoming_one(store, await store.schedules.get(name))
    except NotFound as unknown:
        raise await _what_it_is(store, name) or unknown from None


async def _what_it_is(store: Store, name: str) -> NotFound | None:
    """Why no schedule has the name, if that is known."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    sentence: str
    zone: str | None  # of its moments; None: it needs none
    moments: Sequence[datetime]
    notes: Sequence[str]  # what clock changes will do


async def rule_facts(
    store: Store, text: str, *, zone: str | None, dst: str = "cron", count: int = 10
) -> RuleFacts:
    """Evaluate a rule that a caller typed, in a thread: it may take a second, or be refused."""
    now = await store.surroundings.now()
    return await asyncio.to_thread(_rule_facts, text, now, zone=zone, dst=dst, count=count)


def _rule_facts(text: str, now: datetime, *, zone: str | None, dst: str, count: int) -> RuleFacts:
    with Budget():
        return _facts_of(parse(text, zone=zone, dst=dst), now, zone=zone, count=count)


def _facts_of(rule: Rule | Spaced, now: datetime, *, zone: str | None, count: int) -> RuleFacts:
    if isinstance(rule, Spaced):
        after = rule.after_end(now)
        moments = [] if after is None else [after]
        return RuleFacts(sentence=rule.explain(), zone=None, moments=moments, notes=())
    moments = list(rule.between(now, datetime.max.replace(tzinfo=UTC), count))
    return RuleFacts(
        sentence=rule.explain(),
        zone=rule.zone or zone,
        moments=moments,
        notes=clock_change_notes(rule, now),
    )


async def schedule_moments(store: Store, name: str, *, count: int) -> RuleFacts:
    """The same of a schedule, without what it excludes or skips ahead."""
    moments = await preview(store, name, count)
    plan = (await store.schedules.get(name)).plan
    kept = plan.kept
    notes = clock_change_notes(kept, await store.surroundings.now())
    zone = plan.shown_zone if isinstance(kept, Rule) else None
    return RuleFacts(sentence=kept.explain(), zone=zone, moments=moments, notes=notes)


async def changes(store: Store, name: str) -> list[tuple[datetime, str, str]]:
    """When, who, what: the newest first."""
    return await store.schedules.changes(name)


ROWS: Final = 40
RECENT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentFire:
    fire: Fire
    kept: Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    schedule: Schedule  # its ``last`` is that of ``recent``
    words: str  # its rule, as a sentence
    overdue: datetime | None  # when its oldest run was due that no scheduler has fired
    zone: str | None
    recent: Sequence[RecentFire]  # the oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRows:
    """``after`` is the name behind which the next ones are; None: these are the last."""

    rows: Sequence[ScheduleRow]
    after: str | None


async def schedule_rows(
    store: Store, words: str, *, after: str = "", limit: int = ROWS
) -> ScheduleRows:
    """Those that are meant, by name, behind the name ``after``."""
    found = await meant(store, parse_schedule_filter(words), after=after, limit=limit + 1)
    shown = found[:limit]
    now = await store.surroundings.now()
    recent = await _recent(store, shown)
    return ScheduleRows(
        rows=[
            ScheduleRow(
                schedule=Schedule.of(one, None),
                words=in_words(one.plan),
                overdue=one.overdue_at(now),
                zone=own_zone(one.plan),
                recent=recent[one.id],
            )
            for one in shown
        ],
        after=shown[-1].plan.name if len(found) > limit else None,
    )


def in_words(plan: Plan) -> str:
    """Its rule as a sentence; or why nobody can read it here."""
    try:
        return plan.kept.explain()
    except DulyError as error:
        return f"This version of duly cannot read it: {error}"


def outcome_word(fire: Fire) -> str:
    """What became of a moment: of its job, as soon as that is known."""
    return fire.state or fire.outcome


async def _recent(
    store: Store, schedules: Sequence[StoredSchedule]
) -> Mapping[int, Sequence[RecentFire]]:
    """Of each, the last moments with what became of their jobs: two questions for all of them."""
    found = await store.ledger.recent([one.id for one in schedules], limit=RECENT)
    jobs = [fire.job_id for fires in found.values() for fire in fires if fire.job_id is not None]
    runs = await store.evidence.runs_of(jobs) if jobs else {}
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
    return RecentFire(fire=told, kept=kept_word(fire.outcome, fire.cause, state, late=late))
