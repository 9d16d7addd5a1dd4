"""The wall times of a recurrence: its days, and the times on them.

RFC 5545 describes a recurrence as a walk: start at DTSTART, step by INTERVAL, keep what the BY
parts allow. Here it is a set, days x times of day, so that a rule from 1970 is as fast as one from
yesterday.

The *allowed* days are an intersection of simple sets: fields such as month and date, ordinals such
as the 2nd Friday, days of the year, numbered weeks. ``RecurrenceDays`` keeps the periods (years,
months, weeks, days) that are in step with DTSTART and, for BYSETPOS, picks days by position in each
period. A week can lie in two years, so positions are counted over the new year.

There are three kinds of recurrences:

* From DAILY up, INTERVAL chooses days, and BYHOUR, BYMINUTE and BYSECOND the times on each.
* BYSETPOS picks (day, time) pairs of a period. With t times a day, position p is time p mod t of
  day p div t: every time of day has days of its own.
* Below DAILY, a step that divides the day is a pattern of the day. Any other step drifts: 5 hours
  make five patterns, each with days of its own, before the first comes again.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from itertools import product
from math import gcd

from duly.rules.budget import spend
from duly.rules.days import (
    FIRST_YEAR,
    MONTH_LENGTHS,
    NEW_YEAR,
    YEARS,
    Days,
    FieldDays,
    date_of,
    day_number,
    full,
    members,
    pack,
)
from duly.rules.recurrence.rrule_text import Frequency, Recur
from duly.rules.wall_times import MINUTE, MINUTES, NO_TIME, SECOND, WallTimes, minutes_of_day

_WEEK = full(0, 6)
_EACH_SEVENTH = pack(range(0, 366, 7))


@dataclass(frozen=True)
class RecurrenceDays(Days):
    """Allowed days from ``start`` on, in every ``interval``-th period.

    ``positions`` are indices into the allowed days of each period, from its end if negative; empty
    means all. Weeks begin on ``week_start``, 0 for Monday.
    """

    allowed: Days
    frequency: Frequency
    interval: int
    start: int
    week_start: int = 0
    positions: tuple[int, ...] = ()

    def year(self, index: int) -> int:
        days = self._years.get(index)
        if days is None:
            days = self._years[index] = self._days_of(index)
        return days

    @cached_property
    def _years(self) -> dict[int, int]:
        return {}

    def _days_of(self, index: int) -> int:
        if self.start >= NEW_YEAR[index + 1]:
            return 0
        if self.positions:
            days = self._picked(index)
        elif self.interval == 1:
            days = self.allowed.year(index)
        else:
            days = self.allowed.year(index) & self._in_step(index)
        skipped = self.start - NEW_YEAR[index]
        return days >> skipped << skipped if skipped > 0 else days

    def _in_step(self, index: int) -> int:
        days, new_year = 0, NEW_YEAR[index]
        for first, end in self._periods(index):
            days |= _moved((1 << (end - first)) - 1, first - new_year)
        return days

    def _picked(self, index: int) -> int:
        nearby = range(max(index - 1, 0), min(index + 2, YEARS))
        base = NEW_YEAR[nearby[0]] - 7
        allowed = picked = 0
        for near in nearby:
            allowed |= self.allowed.year(near) << (NEW_YEAR[near] - base)
        for first, end in self._periods(index):
            candidates = allowed >> (first - base) & ((1 << (end - first)) - 1)
            picked |= _at_positions(candidates, self.positions) << (first - base)
        return picked >> (NEW_YEAR[index] - base) & _whole_year(index)

    def _periods(self, index: int) -> Iterator[tuple[int, int]]:
        """Yield the periods in step that touch a year: the first day and the day after the last."""
        new_year, end = NEW_YEAR[index], NEW_YEAR[index + 1]
        match self.frequency:
            case Frequency.YEARLY:
                if (FIRST_YEAR + index - date_of(self.start).year) % self.interval == 0:
                    yield new_year, end
            case Frequency.MONTHLY:
                yield from self._months(index)
            case Frequency.WEEKLY:
                week = self.start - (self.start + 3 - self.week_start) % 7
                first = new_year - 6 + (week - new_year + 6) % (7 * self.interval)
                for day in range(first, end, 7 * self.interval):
                    yield day, day + 7
            case _:
                first = new_year + (self.start - new_year) % self.interval
                for day in range(first, end, self.interval):
                    yield day, day + 1

    def _months(self, index: int) -> Iterator[tuple[int, int]]:
        start = date_of(self.start)
        since = (FIRST_YEAR + index - start.year) * 12 - start.month + 1
        for month, (first, end) in enumerate(_month_bounds(index)):
            if (since + month) % self.interval == 0:
                yield NEW_YEAR[index] + first, NEW_YEAR[index] + end


@dataclass(frozen=True)
class OrdinalDays(Days):
    """Weekdays with an ordinal, such as the 2nd Friday (4, 2) or the last Monday (0, -1).

    Counted in each month or in the whole year. ``weekdays`` are those wanted without an ordinal.
    """

    ordinals: frozenset[tuple[int, int]]
    weekdays: int
    monthly: bool

    def year(self, index: int) -> int:
        new_year_on = (NEW_YEAR[index] + 3) % 7
        days = 0
        for weekday in members(self.weekdays):
            days |= _EACH_SEVENTH << (weekday - new_year_on) % 7
        year = _whole_year(index)
        for first, end in _month_bounds(index) if self.monthly else [(0, year.bit_length())]:
            for weekday, n in self.ordinals:
                falling = range(first + (weekday - new_year_on - first) % 7, end, 7)
                at = n - 1 if n > 0 else n
                if -len(falling) <= at < len(falling):
                    days |= 1 << falling[at]
        return days & year


@dataclass(frozen=True)
class YearDays(Days):
    """Days by their number in the year, from 1, or from -1 for 31 December."""

    numbers: tuple[int, ...]

    def year(self, index: int) -> int:
        days = range(NEW_YEAR[index + 1] - NEW_YEAR[index])
        found = (number - 1 if number > 0 else len(days) + number for number in self.numbers)
        return pack(day for day in found if day in days)


@dataclass(frozen=True)
class NumberedWeeks(Days):
    """The days of weeks by number: week 1 is the first with four days or more in the year.

    A year's first and last days may belong to a week of its neighbour.
    """

    numbers: tuple[int, ...]
    week_start: int

    def year(self, index: int) -> int:
        year = FIRST_YEAR + index
        days = 0
        for near in (year - 1, year, year + 1):
            weeks = range(self._first_week(near), self._first_week(near + 1), 7)
            for number in self.numbers:
                at = number - 1 if number > 0 else number
                if -len(weeks) <= at < len(weeks):
                    days |= _moved(_WEEK, weeks[at] - NEW_YEAR[index])
        return days & _whole_year(index)

    def _first_week(self, year: int) -> int:
        fourth = day_number(date(year, 1, 4))
        return fourth - (fourth + 3 - self.week_start) % 7


def _month_bounds(index: int) -> Iterator[tuple[int, int]]:
    start = 0
    for length in MONTH_LENGTHS[_whole_year(index).bit_length() == 366]:
        yield start, start + length
        start += length


def _whole_year(index: int) -> int:
    return (1 << (NEW_YEAR[index + 1] - NEW_YEAR[index])) - 1


def _moved(days: int, by: int) -> int:
    """Shift days by a number of days; days before bit 0 are dropped."""
    return days << by if by >= 0 else days >> -by


def _at_positions(days: int, positions: tuple[int, ...]) -> int:
    found = list(members(days))
    return pack(found[at] for at in positions if -len(found) <= at < len(found))


@dataclass(frozen=True)
class JoinedWallTimes(WallTimes):
    """The union of disjoint sets of wall times."""

    parts: tuple[WallTimes, ...] = ()

    def next(self, wall: int) -> int | None:
        spend(len(self.parts))
        found = [part.next(wall) for part in self.parts]
        return min((time for time in found if time is not None), default=None)

    def previous(self, wall: int) -> int | None:
        spend(len(self.parts))
        found = [part.previous(wall) for part in self.parts]
        return max((time for time in found if time is not None), default=None)

    def count_before(self, wall: int) -> int:
        spend(len(self.parts))
        return sum(part.count_before(wall) for part in self.parts)


def wall_times(recur: Recur, start: datetime) -> WallTimes:
    """Return all wall times of a completed recurrence, from the day of DTSTART on."""
    below_daily = recur.frequency > Frequency.DAILY
    days = RecurrenceDays(
        _allowed_days(recur),
        Frequency.DAILY if below_daily else recur.frequency,
        1 if below_daily else recur.interval,
        day_number(start.date()),
        recur.week_start,
    )
    minutes = minutes_of_day(pack(recur.hours) or full(0, 23), pack(recur.minutes) or full(0, 59))
    seconds = tuple(second * SECOND for second in recur.seconds) or tuple(range(0, MINUTE, SECOND))
    whole = WallTimes(days, minutes, seconds)
    if below_daily:
        return _stepping(recur, start, days, whole)
    return _picked(recur, days, whole) if recur.positions else whole


def _allowed_days(recur: Recur) -> Days:
    ordinals = frozenset((weekday, n) for weekday, n in recur.weekdays if n)
    weekdays = pack(weekday for weekday, n in recur.weekdays if not n)
    dates = pack(day for day in recur.month_days if day > 0)
    days: Days = FieldDays(
        months=pack(recur.months) or full(1, 12),
        dates=dates if recur.month_days else full(1, 31),
        last=pack(-day for day in recur.month_days if day < 0),
        weekdays=weekdays if recur.weekdays and not ordinals else full(0, 6),
    )
    if ordinals:
        monthly = recur.frequency is Frequency.MONTHLY or bool(recur.months)
        days &= OrdinalDays(ordinals, weekdays, monthly)
    if recur.year_days:
        days &= YearDays(recur.year_days)
    if recur.week_numbers:
        days &= NumberedWeeks(recur.week_numbers, recur.week_start)
    return days


def _picked(recur: Recur, days: RecurrenceDays, whole: WallTimes) -> WallTimes:
    """Return the wall times that BYSETPOS picks: for each time of day its days by position."""
    times = list(product(recur.hours, recur.minutes, recur.seconds))
    positions: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    for position in recur.positions:
        day, time = divmod(position - (position > 0), len(times))
        positions[times[time]].add(day)
    patterns: dict[tuple[tuple[int, ...], int], int] = defaultdict(int)
    for (hour, minute, second), found in positions.items():
        patterns[tuple(sorted(found)), second * SECOND] |= 1 << hour * 60 + minute
    parts = []
    for (picked, second), minutes in patterns.items():
        if recur.frequency is not Frequency.DAILY:
            parts.append(WallTimes(replace(days, positions=picked), minutes, (second,)))
        elif {0, -1} & set(picked):  # a period of one day, first and last at once
            parts.append(WallTimes(days, minutes, (second,)))
    return _joined(whole, parts)


def _stepping(recur: Recur, start: datetime, days: RecurrenceDays, whole: WallTimes) -> WallTimes:
    """Return the wall times of a step below a day: for each pattern of a day its days."""
    if recur.frequency is Frequency.SECONDLY:
        return _stepping_by_seconds(recur, start, days, whole)
    slots = 24 if recur.frequency is Frequency.HOURLY else MINUTES
    first = start.hour if slots == 24 else start.hour * 60 + start.minute
    cycle = recur.interval // gcd(recur.interval, slots)
    parts = []
    for day in range(min(cycle, NEW_YEAR[-1] - days.start)):
        offset = (first - day * slots) % recur.interval
        if offset >= slots:
            continue
        steps = pack(range(offset, slots, recur.interval))
        minutes = whole.minutes & (minutes_of_day(steps, full(0, 59)) if slots == 24 else steps)
        if minutes:
            own = replace(days, interval=cycle, start=days.start + day)
            parts.append(WallTimes(own, minutes, whole.seconds))
    return _joined(whole, parts)


def _stepping_by_seconds(
    recur: Recur, start: datetime, days: RecurrenceDays, whole: WallTimes
) -> WallTimes:
    seconds = tuple(
        second
        for second in whole.seconds
        if (second // SECOND - start.second) % min(recur.interval, 60) == 0
    )
    if not seconds:
        return NO_TIME
    wall = WallTimes(days, whole.minutes, seconds)
    if recur.interval < 60:
        return wall
    by_minutes = replace(recur, frequency=Frequency.MINUTELY, interval=recur.interval // 60)
    return _stepping(by_minutes, start, days, wall)


def _joined(whole: WallTimes, parts: list[WallTimes]) -> WallTimes:
    if len(parts) < 2:
        return parts[0] if parts else NO_TIME
    return JoinedWallTimes(whole.days, whole.minutes, whole.seconds, tuple(parts))
