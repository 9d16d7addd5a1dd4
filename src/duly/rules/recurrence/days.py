"""The days of a recurrence: those its BY parts allow, in the periods that its INTERVAL keeps.

Two questions that RFC 5545 asks one after the other are two sets here. Which days are *allowed* is
an intersection of simple sets: fields such as month and date, ordinals such as the 2nd Friday, days
of the year, numbered weeks. ``RecurrenceDays`` then keeps the periods (years, months, weeks, days)
that are in step with DTSTART and, for BYSETPOS, picks by position within each.

A week can lie in two years, so positions are picked from days that reach over new year.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from duly.rules.bits import full, members, pack
from duly.rules.days import FIRST_YEAR, MONTH_LENGTHS, NEW_YEAR, YEARS, Days, date_of, day_number
from duly.rules.recurrence.parts import Frequency

_WEEK = full(0, 6)
_EACH_SEVENTH = pack(range(0, 366, 7))


@dataclass(frozen=True)
class RecurrenceDays(Days):
    """Allowed days from ``start`` on, in every ``interval``-th period.

    ``positions`` are indices into the allowed days of each period, from its end if negative. None
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
        """The periods in step that touch a year: first day, and the day after the last."""
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
    """Days a number of days later; those before bit 0 are dropped."""
    return days << by if by >= 0 else days >> -by


def _at_positions(days: int, positions: tuple[int, ...]) -> int:
    found = list(members(days))
    return pack(found[at] for at in positions if -len(found) <= at < len(found))
