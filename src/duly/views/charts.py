"""Charts of the last hour or day: throughput, waiting time, run time and lateness.

A page may refresh once a second, and a day may hold a million jobs. Stretches of time that are over
are read once, newest first, and within a time budget per refresh: the first one on a busy store
shows the last minutes, and the next ones add the rest. A stretch that is not read yet is None.

Durations come as histograms. A percentile is interpolated linearly between two bounds.

The day strip shows the results of the last day's runs by hour, and the number of upcoming runs. A
busy store decides hundreds of thousands of runs in a day, so the day is read in quarters of an
hour, by the time of the decision, and cached. Each refresh reads the current quarter and one old
one in turn; and, within a time budget, the quarters that may still change because a job is running
or may be retried.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple, TypeAlias

from duly.clock import boottime
from duly.durations import HOUR, MINUTE
from duly.errors import InvalidValue
from duly.instants import floored
from duly.model.schedule import StoredSchedule
from duly.store.activity import LENGTHS, MOST_COUNTED, Depth, EndedStats
from duly.store.store import Store
from duly.views.fires import LATE, Counts, RunResult, counted
from duly.views.overdue import HOURS_AHEAD, OverdueRuns, UpcomingRuns, ahead, find_overdue

BUDGET = 0.15  # seconds per refresh for reading stretches that are over
GRACE = timedelta(seconds=30)  # a transaction is seen later than the moment it was begun at

# For a span up to each of these, how long a stretch is.
STEPS = (
    (timedelta(hours=1), timedelta(minutes=1)),
    (timedelta(hours=6), timedelta(minutes=5)),
    (timedelta(hours=24), timedelta(minutes=15)),
)

Counted: TypeAlias = tuple[int | None, ...]
Seconds: TypeAlias = tuple[float | None, ...]


class Percentiles(NamedTuple):
    p50: Seconds = ()
    p95: Seconds = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A value for each stretch, the oldest first; None: not known yet, or nothing to measure.

    Lengths are in seconds.
    """

    step: timedelta
    starts: tuple[datetime, ...]
    succeeded: Counted
    failed: Counted
    others: Counted
    waiting: Percentiles
    running: Percentiles
    lateness: Percentiles
    complete: bool  # whether every stretch is known


class Charts:
    """Caches the stretches that were read. Created once per process, for one store."""

    def __init__(self) -> None:
        self._known: dict[timedelta, dict[datetime, _Stretch]] = {}

    async def look(
        self, store: Store, now: datetime, *, span: timedelta, queue: str | None = None
    ) -> Series:
        """Return the stretches up to the current one, of one queue or of all."""
        step = _step(span)
        last = floored(now, step)
        starts = [last - place * step for place in range(-(-span // step))]
        known = self._known.setdefault(step, {})
        for start in known.keys() - set(starts):
            del known[start]
        await _learn(store, now, starts, step=step, known=known)
        found = [_summed(start, known.get(start), queue) for start in reversed(starts)]
        return _series(found, starts[::-1], step=step)

    def minute(self, start: datetime) -> Mapping[str, EndedStats]:
        """Return what ended in one minute by queue, as far as the hour chart has loaded it."""
        stretch = self._known.get(STEPS[0][1], {}).get(start)
        return {} if stretch is None else stretch.queues


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    asked_at: datetime
    queues: Mapping[str, EndedStats]


async def _learn(
    store: Store,
    now: datetime,
    starts: Sequence[datetime],
    *,
    step: timedelta,
    known: dict[datetime, _Stretch],
) -> None:
    """Load missing or outdated stretches, newest first, until the time budget is spent."""
    began = boottime()
    for start in starts:
        if not _is_due(known.get(start), start + step, now=now, step=step):
            continue
        found = await store.activity.minutes(start, start + step, step=step)
        known[start] = _Stretch(asked_at=now, queues={one.queue: one for one in found})
        if boottime() - began > BUDGET:
            return


def _is_due(stretch: _Stretch | None, end: datetime, *, now: datetime, step: timedelta) -> bool:
    """Return whether to read a stretch: once when it is over, and repeatedly while it goes on."""
    if stretch is None:
        return True
    if stretch.asked_at >= end + GRACE:
        return False
    return now >= end + GRACE or abs(now - stretch.asked_at) >= step / 60


def _summed(start: datetime, stretch: _Stretch | None, queue: str | None) -> EndedStats | None:
    """Return the sums of one queue, or of all; None if the stretch is not known yet."""
    if stretch is None:
        return None
    parts = [one for one in stretch.queues.values() if queue is None or one.queue == queue]
    return EndedStats(
        start=start,
        queue=queue or "",
        succeeded=sum(part.succeeded for part in parts),
        failed=sum(part.failed for part in parts),
        others=sum(part.others for part in parts),
        waiting=_added(part.waiting for part in parts),
        running=_added(part.running for part in parts),
        lateness=_added(part.lateness for part in parts),
    )


def _added(histograms: Iterable[Sequence[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*histograms, strict=True)]


def _series(
    found: Sequence[EndedStats | None], starts: Sequence[datetime], *, step: timedelta
) -> Series:
    def lengths(name: str) -> Percentiles:
        every = [None if one is None else getattr(one, name) for one in found]
        return Percentiles(
            *(
                tuple(None if one is None else percentile(one, share) for one in every)
                for share in (0.5, 0.95)
            )
        )

    def counts(name: str) -> Counted:
        return tuple(None if one is None else getattr(one, name) for one in found)

    return Series(
        step=step,
        starts=tuple(starts),
        succeeded=counts("succeeded"),
        failed=counts("failed"),
        others=counts("others"),
        waiting=lengths("waiting"),
        running=lengths("running"),
        lateness=lengths("lateness"),
        complete=None not in found,
    )


def percentile(histogram: Sequence[int], share: float) -> float | None:
    """Return the percentile in seconds; for the open last bucket, its lower bound."""
    wanted, below = share * sum(histogram), 0
    bounds: tuple[int, ...] = (0, *LENGTHS, LENGTHS[-1])
    for place, count in enumerate(histogram):
        if count and below + count >= wanted:
            low, high = bounds[place], bounds[place + 1]
            return (low + (high - low) * (wanted - below) / count) / 1_000_000
        below += count
    return None


def _step(span: timedelta) -> timedelta:
    for longest, step in STEPS:
        if timedelta() < span <= longest:
            return step
    raise InvalidValue(f"span={span}: charts show up to 24 hours, as in timedelta(hours=1)")


SHORTEST = timedelta(seconds=10)  # less than this is too short to estimate a rate per minute
APART = timedelta(seconds=1)  # samples closer together than this are dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRates:
    """Jobs in a minute; None: not known yet, or too many to be counted."""

    came: float | None = None
    ended: float | None = None


class QueueRateMeter:
    """Remembers recent queue depths. Created once per process, for one store."""

    def __init__(self) -> None:
        self._looks: deque[tuple[datetime, Mapping[str, int | None]]] = deque()

    def look(
        self, depths: Iterable[Depth], charts: Charts, *, now: datetime
    ) -> "dict[str, QueueRates]":
        """Return the rates of every queue that has a depth or in which jobs have just ended."""
        sizes = {one.queue: _size(one) for one in depths}
        while self._looks and not timedelta() <= now - self._looks[0][0] <= MINUTE:
            self._looks.popleft()
        if not self._looks or now - self._looks[-1][0] >= APART:
            self._looks.append((now, sizes))
        ended = _ended(charts, now)
        return {
            name: QueueRates(
                came=self._came(name, sizes.get(name, 0), ended.get(name, 0.0), now=now),
                ended=ended.get(name, 0.0),
            )
            for name in {*sizes, *ended}
        }

    def _came(self, name: str, size: int | None, ended: float, *, now: datetime) -> float | None:
        first, sizes = self._looks[0]
        before = sizes.get(name, 0)
        if size is None or before is None or now - first < SHORTEST:
            return None
        return max(0.0, ended + (size - before) * (MINUTE / (now - first)))


def _size(depth: Depth) -> int | None:
    """Return the number of jobs in a queue, or None if some were not counted."""
    parts = (depth.ready, depth.scheduled, depth.blocked, depth.running)
    return sum(parts) if depth.whole and max(parts) <= MOST_COUNTED else None


def _ended(charts: Charts, now: datetime) -> dict[str, float]:
    """Estimate how many jobs ended in the last sixty seconds, by queue.

    Adds up this minute and the remaining share of the minute before.
    """
    start = floored(now, MINUTE)
    found: dict[str, float] = {}
    for minute, share in ((start, 1.0), (start - MINUTE, 1.0 - (now - start) / MINUTE)):
        for name, one in charts.minute(minute).items():
            ended = one.succeeded + one.failed + one.others
            found[name] = found.get(name, 0.0) + ended * share
    return found


HOURS = 24
QUARTER = timedelta(minutes=15)
STRIP_BUDGET = 0.04  # seconds per refresh for quarters that may have changed
AHEAD_FOR = timedelta(minutes=1)  # how long the number of upcoming runs is cached


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
    rest_of_hour: int  # runs still to come in the current hour
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
            if boottime() - began > STRIP_BUDGET:
                break
        for one in [one for one in rest if not one.may_change][:1]:
            await self._ask(store, one.start, since, now)

    async def _ask(self, store: Store, start: datetime, since: datetime, now: datetime) -> None:
        found = await store.activity.hour_tallies(
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
