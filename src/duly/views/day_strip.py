"""The day strip: results of the last day's runs by hour, and the number of upcoming runs.

A busy store decides hundreds of thousands of runs in a day, and a page may refresh once a second.
So the day is read in quarters of an hour, by the time of the decision, and cached. Each refresh
reads the current quarter and one old one in turn; and, within a time budget, the quarters that may
still change because a job is running or may be retried.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from duly.clock import boottime
from duly.instants import floored
from duly.model.schedule import StoredSchedule
from duly.store.store import Store
from duly.views.fires import LATE, Counts, RunResult, counted
from duly.views.overdue import HOURS_AHEAD, OverdueRuns, UpcomingRuns, ahead, find_overdue

HOURS = 24
HOUR = timedelta(hours=1)
QUARTER = timedelta(minutes=15)
GRACE = timedelta(seconds=30)  # a transaction is seen later than the moment it was begun at
BUDGET = 0.04  # seconds per refresh for quarters that may have changed
AHEAD_FOR = timedelta(minutes=1)  # so long it is known how many are coming


@dataclass(frozen=True, slots=True, kw_only=True)
class HourCell:
    start: datetime
    counts: Counts

    @property
    def worst(self) -> RunResult:
        if self.counts.failed:
            return "failed"
        if self.counts.overdue:
            return "overdue"
        if self.counts.late:
            return "late"
        if self.counts.in_progress:
            return "in progress"
        return "succeeded" if self.counts.succeeded else "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingHour:
    start: datetime
    moments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StripView:
    """The last hours by UTC, of which the last goes on, and the hours that follow."""

    now: datetime
    since: datetime
    hours: tuple[HourCell, ...]
    counts: Counts  # of all these hours
    rest_of_hour: int  # so many moments are still to come in the hour that goes on
    coming: tuple[ComingHour, ...]
    estimated: bool = False  # whether there were too many upcoming runs to count
    overdue: OverdueRuns | None = None


class DayStrip:
    """Keeps the quarters of the day in a cache. Created once per process, for one store."""

    def __init__(self) -> None:
        # The quarter that was read longest ago comes first.
        self._quarters: dict[datetime, _Quarter] = {}
        self._ahead: tuple[datetime, UpcomingRuns] | None = None

    async def look(
        self, store: Store, now: datetime, *, first: Sequence[StoredSchedule] | None = None
    ) -> StripView:
        """Return the strip; ``first`` are the schedules due first, if the caller knows them."""
        current = floored(now, HOUR)
        since = current - (HOURS - 1) * HOUR
        await self._refresh(store, now, since)
        parts = list(self._quarters.values())
        overdue = await find_overdue(store, now, first=first)
        cells = [_cell(since + place * HOUR, parts, overdue) for place in range(HOURS)]
        coming = await self._look_ahead(store, now)
        return StripView(
            now=now,
            since=since,
            hours=tuple(cells),
            counts=replace(
                Counts.total(cell.counts for cell in cells),
                overdue=0 if overdue is None else overdue.runs,  # includes those of the days before
            ),
            rest_of_hour=coming.moments(current),
            coming=tuple(
                ComingHour(start=start, moments=coming.moments(start))
                for start in (current + place * HOUR for place in range(1, HOURS_AHEAD + 1))
            ),
            estimated=coming.estimated,
            overdue=overdue,
        )

    async def _refresh(self, store: Store, now: datetime, since: datetime) -> None:
        for start in [start for start in self._quarters if not since <= start <= now]:
            del self._quarters[start]
        known = list(self._quarters.values())
        missing = [start for start in _quarters(since, now) if start not in self._quarters]
        going_on = [one.start for one in known if one.asked_at < one.start + QUARTER + GRACE]
        for start in (*missing, *going_on):
            await self._ask(store, start, since, now)
        rest = [one for one in known if one.start not in going_on]
        began = boottime()
        for one in (one for one in rest if one.may_change):
            await self._ask(store, one.start, since, now)
            if boottime() - began > BUDGET:
                break
        for one in [one for one in rest if not one.may_change][:1]:
            await self._ask(store, one.start, since, now)

    async def _ask(self, store: Store, start: datetime, since: datetime, now: datetime) -> None:
        found = await store.evidence.hour_tallies(
            start, until=start + QUARTER, due_since=since, late=LATE
        )
        hours = {
            hour: counted(tallies) for hour, tallies in groupby(found, key=lambda one: one.hour)
        }
        self._quarters.pop(start, None)
        self._quarters[start] = _Quarter(start=start, asked_at=now, hours=hours)

    async def _look_ahead(self, store: Store, now: datetime) -> UpcomingRuns:
        if self._ahead is None or not timedelta() <= now - self._ahead[0] < AHEAD_FOR:
            self._ahead = (now, await ahead(store, now))
        return self._ahead[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quarter:
    """The runs decided in a quarter of an hour, by the hour in which they were due."""

    start: datetime
    asked_at: datetime
    hours: Mapping[datetime, Counts]

    @property
    def may_change(self) -> bool:
        return any(counts.in_progress or counts.failed for counts in self.hours.values())


def _cell(start: datetime, quarters: Iterable[_Quarter], overdue: OverdueRuns | None) -> HourCell:
    found = [quarter.hours[start] for quarter in quarters if start in quarter.hours]
    if overdue is not None:
        found.append(Counts(overdue=overdue.hours.get(start, 0)))
    return HourCell(start=start, counts=Counts.total(found))


def _quarters(since: datetime, now: datetime) -> Iterable[datetime]:
    start = since
    while start <= now:
        yield start
        start += QUARTER
