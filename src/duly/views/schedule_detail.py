"""All that a page says of one schedule: where it stands, and what became of its moments."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from shlex import quote
from typing import Final

from duly.declare.changes import FieldDifference
from duly.declare.comparison import plan
from duly.declare.entry_plans import entry_of
from duly.declare.schedule_file import ScheduleFile
from duly.errors import NotFound, RuleError
from duly.model.schedule import Pause, Plan
from duly.policy.why import LocalClock, SuggestedCommand
from duly.rules import Spaced, clock_change_notes, local_time
from duly.store.store import Store
from duly.views.fires import Fire, history
from duly.views.schedules import Schedule, beyond, in_words, own_zone, policies_in_words, preview

PAGE: Final = 25
NEXT: Final = 3
CHANGES: Final = 20
MOST_WEIGHED: Final = 1_000
FAR: Final = timedelta(days=366 * 30)
_POLICIES: Final = "policies: "
_TO: Final = " → "
_JSON: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Drift:
    """A field that is otherwise here than in the code of an app."""

    app: str
    difference: FieldDifference

    @property
    def field(self) -> str:
        return self.difference.field

    @property
    def here(self) -> str:
        return self.difference.shown[0]

    @property
    def in_code(self) -> str:
        return self.difference.shown[1]

    def __str__(self) -> str:
        return f"{self.field} is {self.here} here, and {self.in_code} in {self.app}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetail:
    """What may be another in a second."""

    schedule: Schedule
    sentence: str
    policies: Sequence[str]
    zone: str | None
    pause: Pause | None
    fault: str | None
    overdue: datetime | None  # when its oldest run was due that no scheduler has fired
    ahead: Sequence[datetime]
    skipped: Sequence[datetime]  # moments ahead that were skipped in advance
    after_end: bool  # whether the end of a run decides when it is due
    notes: Sequence[str]  # on clock changes that make a difference
    drift: Sequence[Drift]
    fires: Sequence[Fire]  # the newest first
    before: datetime | None  # where the page behind begins; None: these are the last


@dataclass(frozen=True, slots=True, kw_only=True)
class HourLateness:
    """How late the runs were begun that were due in an hour of a weekday."""

    weekday: int  # Monday is 0
    hour: int
    runs: int
    lateness: timedelta  # in the middle


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBackground:
    """What hardly changes while somebody looks."""

    hours: Sequence[HourLateness]
    weighed: int  # so many runs were looked at for it
    changes: Sequence[tuple[datetime, str, str]]


async def standing(
    store: Store, name: str, *, now: datetime, before: datetime | None = None
) -> ScheduleDetail:
    found = await store.schedules.get(name)
    skipped = (await store.ledger.skipped_ahead([found.id])).get(found.id, frozenset())
    stored = beyond(found, skipped)
    latest = await store.ledger.latest([stored.id])
    schedule = Schedule.of(stored, latest.get(stored.id))
    plan, readable = schedule.plan, schedule.plan.is_readable
    fires = await history(store, name, since=None, until=before or now, limit=PAGE + 1)
    return ScheduleDetail(
        schedule=schedule,
        sentence=in_words(plan),
        policies=policies_in_words(plan) if readable else (),
        zone=own_zone(plan),
        pause=stored.pause,
        fault=stored.fault,
        overdue=stored.overdue_at(now),
        ahead=await _ahead(store, schedule) if readable else (),
        skipped=sorted(skipped),
        after_end=readable and isinstance(plan.kept, Spaced),
        notes=_notes(plan, now) if readable else (),
        drift=await drift(store, name),
        fires=fires[:PAGE],
        before=fires[PAGE].due_at + timedelta.resolution if len(fires) > PAGE else None,
    )


def _notes(plan: Plan, now: datetime) -> Sequence[str]:
    with suppress(RuleError):  # as below
        return clock_change_notes(plan.kept, now)
    return ()


async def background(store: Store, name: str, *, zone: str, now: datetime) -> ScheduleBackground:
    fires = await history(store, name, since=None, until=now, limit=MOST_WEIGHED)
    late = [one for one in fires if one.lateness is not None and not one.manual]
    return ScheduleBackground(
        hours=_hours(late, zone),
        weighed=len(late),
        changes=[
            (moment, who, readable(what))
            for moment, who, what in await store.schedules.changes(name, limit=CHANGES)
        ],
    )


def readable(change: str) -> str:
    """What was changed, with only those policies that were: the store notes all of them."""
    before, found, behind = change.partition(_POLICIES)
    if not found:
        return change
    try:
        old, end = _JSON.raw_decode(behind)
        new, last = _JSON.raw_decode(behind, end + len(_TO))
    except ValueError:
        return change
    differing = [
        f"{field}: {old.get(field, 'none')}{_TO}{new.get(field, 'none')}"
        for field in sorted({*old, *new})
        if old.get(field) != new.get(field)
    ]
    return before + "; ".join(differing) + behind[last:]


async def _ahead(store: Store, schedule: Schedule) -> Sequence[datetime]:
    """Its next moments; of one that is paused, those behind the pause."""
    until, kept = schedule.paused_until, schedule.plan.kept
    with suppress(RuleError):  # it costs too much: the schedule's fault says so
        if not schedule.paused:
            return await preview(store, schedule.name, NEXT)
        if until is not None and not isinstance(kept, Spaced):
            return list(kept.between(until - timedelta.resolution, until + FAR, NEXT))
    return ()


def _hours(fires: Iterable[Fire], zone: str) -> list[HourLateness]:
    found: Mapping[tuple[int, int], list[timedelta]] = defaultdict(list)
    for fire in fires:
        local = local_time(fire.due_at, zone)
        found[local.weekday(), local.hour].append(fire.lateness or timedelta())
    return [
        HourLateness(
            weekday=weekday, hour=hour, runs=len(late), lateness=sorted(late)[len(late) // 2]
        )
        for (weekday, hour), late in sorted(found.items())
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A schedule that code declares and that somebody has removed."""

    name: str
    app: str
    at: datetime | None = None  # None: that is forgotten by now
    by: str = ""

    def sentence(self, clock: LocalClock) -> str:
        when = "" if self.at is None else f" {clock.near(self.at)}"
        by = f" by {self.by}" if self.by else ""
        return f"removed{when}{by}, and still declared in {self.app}: it does not run"

    @property
    def command(self) -> SuggestedCommand:
        return SuggestedCommand("bring it back", f"duly schedules take-back {quote(self.name)}")


async def removed_schedules(store: Store) -> list[Removed]:
    return [await _removed(store, name, app) for name, app in await store.schedules.removed()]


async def _removed(store: Store, name: str, app: str) -> Removed:
    try:
        [(at, who, _)] = await store.schedules.changes(name, limit=1)
    except (NotFound, ValueError):
        return Removed(name=name, app=app)
    return Removed(name=name, app=app, at=at, by=who)


async def drift(store: Store, name: str) -> list[Drift]:
    known = await store.schedules.in_code(name)
    if known is None:
        return []
    app, declared = known
    if name in {gone for gone, _ in await store.schedules.removed()}:
        return []
    live = await store.schedules.get(name)
    here, code = (
        ScheduleFile(schedules={name: entry_of(one)})
        for one in (live, replace(live, plan=declared))
    )
    [change] = plan(code, code, here).changes
    return [Drift(app, difference) for difference in change.drift]
