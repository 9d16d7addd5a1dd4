"""The wall times of a recurrence: which days, and which times on them.

A recurrence is usually told as a walk: begin at DTSTART, step by INTERVAL, keep what the BY parts
allow. Here it is a set, days x times of day, so that a rule from 1970 answers as fast as one from
yesterday. There are three kinds:

* From DAILY up, INTERVAL chooses days, and BYHOUR, BYMINUTE and BYSECOND the times on each.
* BYSETPOS picks (day, time) pairs of a period. With t times a day, position p is time p mod t of
  day p div t: every time of day has days of its own.
* Below DAILY, a step that divides the day is a pattern of the day. Any other step drifts: 5 hours
  make five patterns, each with days of its own, before the first comes again.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from math import gcd

from duly.rules.bits import full, pack
from duly.rules.budget import spend
from duly.rules.days import NEW_YEAR, Days, FieldDays, day_number
from duly.rules.recurrence.days import NumberedWeeks, OrdinalDays, RecurrenceDays, YearDays
from duly.rules.recurrence.parts import Frequency, Recur
from duly.rules.wall import MINUTE, MINUTES, NO_TIME, SECOND, Wall, minutes_of_day


@dataclass(frozen=True)
class Walls(Wall):
    """Of a wall's times those that are in one of the parts. No two parts share a time."""

    parts: tuple[Wall, ...] = ()

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


def wall_times(recur: Recur, start: datetime) -> Wall:
    """All wall times of a completed recurrence, from the day of DTSTART on."""
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
    whole = Wall(days, minutes, seconds)
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


def _picked(recur: Recur, days: RecurrenceDays, whole: Wall) -> Wall:
    """What BYSETPOS picks: for each time of day the positions of its days."""
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
            parts.append(Wall(replace(days, positions=picked), minutes, (second,)))
        elif {0, -1} & set(picked):  # a period of one day, first and last at once
            parts.append(Wall(days, minutes, (second,)))
    return _joined(whole, parts)


def _stepping(recur: Recur, start: datetime, days: RecurrenceDays, whole: Wall) -> Wall:
    """Steps below a day, from DTSTART on: for each pattern of a day the days that have it."""
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
            parts.append(Wall(own, minutes, whole.seconds))
    return _joined(whole, parts)


def _stepping_by_seconds(recur: Recur, start: datetime, days: RecurrenceDays, whole: Wall) -> Wall:
    seconds = tuple(
        second
        for second in whole.seconds
        if (second // SECOND - start.second) % min(recur.interval, 60) == 0
    )
    if not seconds:
        return NO_TIME
    wall = Wall(days, whole.minutes, seconds)
    if recur.interval < 60:
        return wall
    by_minutes = replace(recur, frequency=Frequency.MINUTELY, interval=recur.interval // 60)
    return _stepping(by_minutes, start, days, wall)


def _joined(whole: Wall, parts: list[Wall]) -> Wall:
    if len(parts) < 2:
        return parts[0] if parts else NO_TIME
    return Walls(whole.days, whole.minutes, whole.seconds, tuple(parts))
