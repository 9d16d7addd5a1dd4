"""Schedules and their due moments, as people see them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duly.durations import say_duration
from duly.errors import DulyError, InvalidValue, NotFound
from duly.model import fire as model
from duly.model import schedule as stored
from duly.model.policies import Missed
from duly.model.schedule_filter import EVERY_SCHEDULE, ScheduleFilter
from duly.rules import Budget, On, Spaced
from duly.rules.on import BEGINNING
from duly.store.protocol import RunTimes, Store
from duly.views.upcoming import upcoming, upcoming_one

MOST_PREVIEWED = 1_000
PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """A due moment of a schedule, what became of it, and why."""

    id: int
    schedule: str
    due_at: datetime
    outcome: str  # "queued", "merged", "skipped"
    reason: str
    job_id: int | None
    decided_at: datetime
    covers_from: datetime  # a row may stand for many moments, from here to due_at
    count: int | None  # so many; None: too many to be counted
    manual: bool  # somebody asked for it; neither the clock nor an event did
    # Of its job, where history is told:
    state: str | None = None
    started_at: datetime | None = None  # for the first time
    took: timedelta | None = None  # the last run, if it has ended
    event: int | None = None  # that made it due

    @property
    def lateness(self) -> timedelta | None:
        """How long after its moment it was begun; None: it was not, or not yet.

        An event says when its reaction is to begin, and that is not when it happened.
        """
        if self.started_at is None or self.event is not None:
            return None
        return self.started_at - self.due_at

    @classmethod
    def of(cls, fire: model.Fire, schedule: str, *, reacts: bool = False) -> "Fire":
        return cls(
            id=fire.id,
            schedule=schedule,
            due_at=fire.due_at,
            outcome=fire.outcome.value,
            reason=fire.reason,
            job_id=fire.job_id,
            decided_at=fire.decided_at,
            covers_from=fire.covers_from,
            count=fire.count,
            manual=fire.series != model.CLOCK and not reacts,
            event=fire.series if reacts else None,
        )


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
    plan: stored.Plan  # everything that was asked for

    @classmethod
    def of(cls, schedule: stored.Schedule, last: model.Fire | None) -> "Schedule":
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


def fires(found: Iterable[model.Fire], schedule: str, *, reacts: bool = False) -> list[Fire]:
    return [Fire.of(fire, schedule, reacts=reacts) for fire in found]


async def with_runs(store: Store, found: Sequence[model.Fire], schedule: str) -> list[Fire]:
    """What became of moments, and of their jobs."""
    told = fires(found, schedule, reacts=await made_by_events(store, found))
    jobs = [fire.job_id for fire in told if fire.job_id is not None]
    runs = await store.evidence.runs_of(jobs) if jobs else {}
    return [with_run(fire, runs.get(fire.job_id or 0)) for fire in told]


async def made_by_events(store: Store, found: Sequence[model.Fire]) -> bool:
    """Asked only where it may be so: what the clock makes due, it says itself."""
    beside = next((fire for fire in found if fire.series != model.CLOCK), None)
    schedule = None if beside is None else await store.evidence.schedule(beside.schedule_id)
    return schedule is not None and reacts(schedule.plan)


def reacts(plan: stored.Plan) -> bool:
    """Whether events make it due, and not the clock."""
    return plan.rule.startswith(BEGINNING)


def with_run(fire: Fire, run: RunTimes | None) -> Fire:
    if run is None:
        return fire
    took = None
    if run.started_at is not None and run.ended_at is not None:
        took = run.ended_at - run.started_at
    return replace(fire, state=run.state.value, started_at=run.first_at, took=took)


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
) -> list[stored.Schedule]:
    """The same, as the store knows them."""
    found: list[stored.Schedule] = []
    while len(found) < limit:
        size = min(limit, PAGE) if wanted == EVERY_SCHEDULE else PAGE
        page = await store.schedules.page(after=after, limit=size)
        found += filter(wanted.means, page)
        if len(page) < size:
            break
        after = page[-1].plan.name
    return await upcoming(store, found[:limit])


async def history(
    store: Store, name: str, *, since: datetime | None, until: datetime | None, limit: int
) -> Sequence[Fire]:
    rows = await store.ledger.fires(name, since=since, until=until, limit=limit)
    return await with_runs(store, rows, name)


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


def own_zone(plan: stored.Plan) -> str | None:
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


def policies_in_words(plan: stored.Plan) -> Sequence[str]:
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
