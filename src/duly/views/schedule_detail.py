"""One schedule with everything about it: the page, ``duly schedules show`` and its JSON."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from shlex import quote
from typing import Annotated, Final

from msgspec import Meta

from duly.errors import NotFound, RuleError
from duly.files.comparison import FieldDifference, plan
from duly.files.entry_plans import entry_of
from duly.files.schedule_file import ScheduleFile
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.policy.redaction import redacted
from duly.policy.why import LocalClock, SuggestedCommand
from duly.rules import Spaced, clock_change_notes, local_time
from duly.store.maintenance import AHEAD
from duly.store.schedules import ScheduleRecord
from duly.store.store import Store
from duly.views.fires import Fire, FireView, fires_of
from duly.views.schedules import (
    Schedule,
    ScheduleView,
    in_words,
    moments_ahead,
    own_zone,
    policies_in_words,
    without_skipped,
)

PAGE: Final = 25
NEXT: Final = 3
CHANGES: Final = 20
MOST_WEIGHED: Final = 1_000
FAR: Final = timedelta(days=366 * 30)
_POLICIES: Final = "policies: "
_TO: Final = " → "
_JSON: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A field that was edited and differs from the code of an app."""

    field: str
    here: str
    in_code: str
    app: str

    def __str__(self) -> str:
        return f"{self.field} is {self.here} here, and {self.in_code} in {self.app}"


@dataclass(frozen=True, slots=True)
class ScheduleChangeView:
    """A change of a schedule."""

    at: datetime
    by: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetail:
    """Everything about one schedule, as the page and ``duly schedules show`` lay it out."""

    schedule: Schedule
    sentence: str
    policies: Sequence[str]
    zone: str | None
    pause: Pause | None
    fault: str | None
    overdue: datetime | None  # when its oldest run was due that no scheduler has fired
    cursor_ahead: datetime | None  # it fires nothing until then: a clock was wrong
    ahead: Sequence[datetime]
    skipped: Sequence[datetime]  # future runs that are skipped in advance
    after_end: bool  # whether the end of a run decides when it is due
    notes: Sequence[str]  # on clock changes that make a difference
    drift: Sequence[Drift]
    fires: Sequence[Fire]  # the newest first
    before: datetime | None  # where the next page begins; None: this is the last
    changes: Sequence[ScheduleChangeView]
    measured: Sequence[Fire]  # the last runs that were started by the clock

    @property
    def as_view(self) -> "ScheduleDetailView":
        return ScheduleDetailView.of(
            self.schedule,
            policies_in_words=list(self.policies),
            next=list(self.ahead),
            history=[FireView.of(fire) for fire in self.fires],
            changes=list(self.changes),
            drift=list(self.drift),
        )

    def hours(self, zone: str) -> "list[HourLateness]":
        """The median lateness of the measured runs, by hour of the week."""
        return _hours(self.measured, zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetailView(ScheduleView):
    """A schedule with its next and last runs, its changes and its drift."""

    policies_in_words: list[str]
    next: list[datetime]
    history: Annotated[list[FireView], Meta(description="The newest first.")]
    changes: list[ScheduleChangeView]
    drift: Annotated[list[Drift], Meta(description="Edited fields that differ from the code.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourLateness:
    """The median lateness of the runs that were due in one hour of a weekday."""

    weekday: int  # Monday is 0
    hour: int
    runs: int
    lateness: timedelta


async def schedule_detail(
    store: Store,
    name: str,
    *,
    before: datetime | None = None,
    page: int = PAGE,
    coming: int = NEXT,
    measured: int = 0,
) -> ScheduleDetail:
    """Read one schedule in one round trip; ``before`` pages back through its history.

    ``measured`` is how many runs are read for ``hours``, instead of one page.
    """
    limit = max(page + 1, measured)
    found = await store.schedules.record(name, until=before, limit=limit, changes=CHANGES)
    stored = without_skipped(found.schedule, found.skipped)
    fires = fires_of(found.fires, found.runs, stored.plan)
    schedule = Schedule.of(stored, found.fires[0] if found.fires and before is None else None)
    plan, is_readable = stored.plan, stored.plan.is_readable
    ahead = stored.cursor > found.now + AHEAD and stored.next_at is not None
    return ScheduleDetail(
        schedule=schedule,
        sentence=in_words(plan),
        policies=policies_in_words(plan) if is_readable else (),
        zone=own_zone(plan),
        pause=stored.pause,
        fault=stored.fault,
        overdue=stored.overdue_at(found.now),
        cursor_ahead=stored.cursor if ahead else None,
        ahead=_ahead(found, coming) if is_readable else (),
        skipped=sorted(found.skipped),
        after_end=is_readable and isinstance(plan.kept, Spaced),
        notes=_notes(plan, found.now) if is_readable else (),
        drift=_drift(found.schedule, found.declared),
        fires=fires[:page],
        before=fires[page].due_at + timedelta.resolution if len(fires) > page else None,
        changes=[
            ScheduleChangeView(at, who, redacted(readable(what))) for at, who, what in found.changes
        ],
        measured=[one for one in fires if one.lateness is not None and not one.manual],
    )


def _notes(plan: Plan, now: datetime) -> Sequence[str]:
    with suppress(RuleError):  # as below
        return clock_change_notes(plan.kept, now)
    return ()


def _ahead(found: ScheduleRecord, count: int) -> Sequence[datetime]:
    """Return the next runs; for a paused schedule, those after the pause."""
    pause, kept = found.schedule.pause, found.schedule.plan.kept
    with suppress(RuleError):  # it costs too much: the schedule's fault says so
        if pause is None:
            return moments_ahead(found.schedule, found.skipped, found.now, count)
        if pause.until is not None and not isinstance(kept, Spaced):
            count = found.schedule.coming(count)
            return list(kept.between(pause.until - timedelta.resolution, pause.until + FAR, count))
    return ()


def readable(change: str) -> str:
    """Return a change with only the policies that differ; the store records all of them."""
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


async def schedule_changes(store: Store, name: str) -> list[ScheduleChangeView]:
    """Return the changes of a schedule, newest first; it may have been removed."""
    return [
        ScheduleChangeView(at, who, redacted(readable(what)))
        for at, who, what in await store.schedules.changes(name)
    ]


async def drift(store: Store, name: str) -> list[Drift]:
    known = await store.schedules.in_code(name)
    if known is None or name in {gone for gone, _ in await store.schedules.removed()}:
        return []
    return _drift(await store.schedules.get(name), known)


def _drift(live: StoredSchedule, known: tuple[str, Plan] | None) -> list[Drift]:
    """Return the fields in which a schedule differs from its declaration in code."""
    if known is None:
        return []
    app, declared = known
    name = live.plan.name
    here, code = (
        ScheduleFile(schedules={name: entry_of(one)})
        for one in (live, replace(live, plan=declared))
    )
    [change] = plan(code, code, here).changes
    return [_drift_of(app, difference) for difference in change.drift]


def _drift_of(app: str, difference: FieldDifference) -> Drift:
    here, in_code = difference.shown
    return Drift(field=difference.field, here=here, in_code=in_code, app=app)
