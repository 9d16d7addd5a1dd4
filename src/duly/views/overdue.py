"""Counts of overdue and upcoming runs over all schedules.

Due times are enumerated by walking along the rules. There may be thousands of schedules with
thousands of moments each, so each gets a share of a fixed number of steps; the rest is extrapolated
at the same pace.
"""

from collections import defaultdict
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duly.durations import HOUR
from duly.errors import RuleError
from duly.instants import BEGINNING, floored
from duly.model.schedule import PROMPT, StoredSchedule
from duly.policy.why import LocalClock, SuggestedCommand
from duly.policy.why.answer import plural, start_node
from duly.rules import Budget
from duly.store.store import Store
from duly.views.schedules import upcoming

HOURS_AHEAD = 12
MOST_SCHEDULES = 2_000
MOST_STEPS = 4_000


@dataclass(frozen=True, slots=True)
class UpcomingRuns:
    """Moments by the hour of UTC in which they are due."""

    hours: Mapping[datetime, float]
    estimated: bool

    def moments(self, hour: datetime) -> int:
        return round(self.hours.get(hour, 0))


async def ahead(store: Store, now: datetime) -> UpcomingRuns:
    """Count the upcoming runs from now to the end of the last hour shown, without overdue ones."""
    end = floored(now, HOUR) + (HOURS_AHEAD + 1) * HOUR
    schedules = await store.activity.due_before(end, limit=MOST_SCHEDULES)
    return walked(schedules, now, end)


def walked(schedules: Sequence[StoredSchedule], start: datetime, end: datetime) -> UpcomingRuns:
    """Count the runs that are not fired yet and are due after ``start`` and before ``end``.

    Schedules with few runs leave their share of the steps to those that follow.
    """
    hours: defaultdict[datetime, float] = defaultdict(float)
    estimated, steps = len(schedules) == MOST_SCHEDULES, MOST_STEPS
    for place, schedule in enumerate(schedules):
        share = max(2, steps // (len(schedules) - place))
        seen, more = _steps(schedule, start, end, share=share)
        steps -= len(seen)
        for moment in seen:
            hours[floored(moment, HOUR)] += 1
        if more is not None:
            estimated = True
            _extend(hours, more, end, pace=(more - seen[0]) / len(seen))
    return UpcomingRuns(hours, estimated)


def _steps(
    schedule: StoredSchedule, start: datetime, end: datetime, *, share: int
) -> tuple[list[datetime], datetime | None]:
    """Return the first moments from start to end, and the next one if there are more."""
    moment, seen, most = schedule.next_at, list[datetime](), schedule.coming(share)
    # A rule that costs too much has no known moments beyond these; the schedule's fault says why.
    with suppress(RuleError), Budget():
        if moment is not None and moment <= start:
            moment = _after(schedule, start)
        while moment is not None and moment < end:
            if len(seen) == most:
                return seen, moment if most == share else None
            seen.append(moment)
            moment = _after(schedule, moment)
    return seen, None


def _after(schedule: StoredSchedule, moment: datetime) -> datetime | None:
    """Return the next due moment after ``moment``.

    None if it cannot be known, as for a fixed delay that starts when a run ends.
    """
    rule = schedule.plan.fixed_rule
    return None if rule is None else rule.after(moment)


def _extend(
    hours: MutableMapping[datetime, float], start: datetime, end: datetime, *, pace: timedelta
) -> None:
    """Add the estimated runs until the end, at a constant ``pace``."""
    while start < end:
        until = min(floored(start, HOUR) + HOUR, end)
        hours[floored(start, HOUR)] += (until - start) / pace
        start = until


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueRuns:
    now: datetime
    since: datetime  # when the oldest of them was due
    schedules: int
    runs: int
    hours: Mapping[datetime, int]  # about how many, by the hour of UTC in which they were due
    last_fired: datetime | None  # when a scheduler last decided anything
    scheduler_is_running: bool  # it fires other schedules, and not these

    def sentence(self, zone: str, *, tenant: str | None = None) -> str:
        """Return the sentence of the banner; a tenant is not told about the runs of others."""
        clock = LocalClock(zone, self.now)
        counted = f" {self.counted} overdue" if tenant is None else ""
        if self.scheduler_is_running:
            since = f"{clock.near(self.since)} ({clock.ago(self.since)} ago)"
            return (
                f"A scheduler is running but behind:{counted or ' runs are overdue'} since {since}."
            )
        last = self.last_fired
        fired = "ever fired" if last is None else f"fired since {clock.near(last)}"
        ago = "" if last is None else f" ({clock.ago(last)} ago)"
        return f"No scheduler is running: nothing was {fired}{ago}.{counted and f'{counted}.'}"

    @property
    def counted(self) -> str:
        """``37 runs of 4 schedules are``."""
        runs, schedules = plural(self.runs, "run"), plural(self.schedules, "schedule")
        return f"{runs} of {schedules} {'is' if self.runs == 1 else 'are'}"

    @property
    def command(self) -> SuggestedCommand:
        return start_node()


def is_late(schedule: StoredSchedule, now: datetime) -> bool:
    """Return whether the stored next moment is past; it may be one that the schedule excludes."""
    return schedule.next_at is not None and schedule.next_at < now - PROMPT


async def find_overdue(
    store: Store, now: datetime, *, first: Sequence[StoredSchedule] | None = None
) -> OverdueRuns | None:
    """Return the overdue runs, or None if there are none.

    ``first`` are the schedules that are due first, in that order, if the caller knows them: if the
    first one is not late, none is, and the store is not asked.
    """
    if first is not None and not any(is_late(one, now) for one in first[:1]):
        return None
    late = await store.activity.due_before(now - PROMPT, limit=MOST_SCHEDULES)
    if not late:
        return None
    waiting = [
        (one, due)
        for one in await upcoming(store, late)  # moments skipped in advance are not overdue
        if (due := one.overdue_at(now)) is not None
    ]
    if not waiting:
        return None
    unfired = [replace(one, next_at=due) for one, due in waiting]
    found = walked(unfired, BEGINNING, now + timedelta.resolution)
    last = await store.activity.last_decision(now)
    newest = max(due for _, due in waiting)
    return OverdueRuns(
        now=now,
        since=min(due for _, due in waiting),
        schedules=len(waiting),
        runs=sum(runs_due(one, due, now) for one, due in waiting),
        hours={hour: found.moments(hour) for hour in found.hours},
        last_fired=last,
        # A scheduler that fired something that long after the newest overdue run is not down.
        scheduler_is_running=last is not None and last > newest + PROMPT,
    )


def runs_due(schedule: StoredSchedule, first: datetime, now: datetime) -> int:
    """Count the runs of a schedule from the first that is overdue to now."""
    rule = schedule.plan.fixed_rule
    if rule is None:
        return 1
    try:
        return rule.count(first - timedelta.resolution, now)
    except RuleError:  # too costly to be counted
        return 1
