"""Sets of calendar days: a year is an integer of 366 bits.

Every kind of day set returns the days of a year as bits (bit 0 is 1 January). Finding the next day,
the previous day and the number of days before are then the same few shifts for all kinds. Days are
numbered from 1970-01-01 to the end of 2199, systemd's horizon.

The days of cron and calendar rules depend only on the type of a year: leap year or not, and the
weekday of 1 January. So fourteen integers describe all years.

The minutes of a day (1440 bits) and the fields of a cron line (at most 60) are sets of the same
kind.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache


def pack(members: Iterable[int]) -> int:
    bits = 0
    for member in members:
        bits |= 1 << member
    return bits


def members(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def lowest(bits: int, start: int = 0) -> int:
    """Return the smallest member at or above ``start``, or -1."""
    rest = bits >> start
    return start + (rest & -rest).bit_length() - 1 if rest else -1


def highest(bits: int, end: int) -> int:
    """Return the largest member at or below ``end``, or -1."""
    return (bits & ((2 << end) - 1)).bit_length() - 1


def count_below(bits: int, end: int) -> int:
    return (bits & ((1 << end) - 1)).bit_count()


def full(low: int, high: int) -> int:
    """Return the set of all numbers from ``low`` to ``high``."""
    return (2 << high) - (1 << low)


FIRST_YEAR = 1970
LAST_YEAR = 2199
YEARS = LAST_YEAR - FIRST_YEAR + 1
ALL_YEARS = (1 << YEARS) - 1

_EPOCH = date(1970, 1, 1).toordinal()
NEW_YEAR = [date(FIRST_YEAR + index, 1, 1).toordinal() - _EPOCH for index in range(YEARS + 1)]
# The weekday of 1 January, and seven more if the year is a leap year.
_YEAR_TYPE = [
    (day + 3) % 7 + 7 * (NEW_YEAR[index + 1] - day == 366)
    for index, day in enumerate(NEW_YEAR[:-1])
]
MONTH_LENGTHS = [(31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31) for leap in (0, 1)]

LAST = -1  # as n in "the n-th Friday"

# The days of a month that fall on Mondays, when its first day is a Monday.
_MONDAYS = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28


def day_number(day: date) -> int:
    return day.toordinal() - _EPOCH


def date_of(number: int) -> date:
    return date.fromordinal(number + _EPOCH)


class Days(ABC):
    """An ordered set of days."""

    @abstractmethod
    def year(self, index: int) -> int:
        """Return the days of the year 1970 + ``index`` in the set, 1 January as bit 0."""

    @cached_property
    def totals(self) -> list[int]:
        """For each year the number of days in the set before it; the last item is the total."""
        totals = [0]
        for index in range(YEARS):
            totals.append(totals[-1] + self.year(index).bit_count())
        return totals

    def next(self, day: int) -> int | None:
        """Return the first day of the set at or after ``day``."""
        if day < 0:
            day = 0
        index = bisect_right(NEW_YEAR, day) - 1
        if index >= YEARS:
            return None
        rest = self.year(index) >> (day - NEW_YEAR[index])
        if rest & 1:
            return day
        if rest:
            return day + (rest & -rest).bit_length() - 1
        totals = self.totals
        later = bisect_right(totals, totals[index + 1]) - 1
        return None if later == YEARS else NEW_YEAR[later] + lowest(self.year(later))

    def previous(self, day: int) -> int | None:
        """Return the last day of the set at or before ``day``."""
        if day < 0:
            return None
        index = min(bisect_right(NEW_YEAR, day), YEARS) - 1
        days, of_year = self.year(index), day - NEW_YEAR[index]
        if days >> of_year & 1:
            return day
        found = highest(days, min(of_year, 366))
        if found >= 0:
            return NEW_YEAR[index] + found
        totals = self.totals
        if not totals[index]:
            return None
        earlier = bisect_right(totals, totals[index] - 1) - 1
        return NEW_YEAR[earlier] + highest(self.year(earlier), 366)

    def count_before(self, day: int) -> int:
        if day <= 0:
            return 0
        index = bisect_right(NEW_YEAR, day) - 1
        if index >= YEARS:
            return self.totals[YEARS]
        return self.totals[index] + count_below(self.year(index), day - NEW_YEAR[index])

    def ever(self) -> bool:
        return any(self.year(index) for index in range(YEARS))

    def __and__(self, other: "Days") -> "Days":
        return CommonDays(self, other)


@dataclass(frozen=True)
class FieldDays(Days):
    """The days of the date fields of a cron line or a calendar expression.

    ``dates`` has bit d for the d-th of the month, ``last`` bit k for the k-th last day, ``nearest``
    bit d for the weekday nearest to the d-th (bit 0: the last weekday of the month). ``weekdays``
    has bit 0 for Monday; ``nth`` holds (weekday, n) pairs, n = ``LAST`` for the month's last.
    Date and weekday must both match; with ``either`` one of them is enough.
    """

    years: int = ALL_YEARS
    months: int = full(1, 12)
    dates: int = full(1, 31)
    last: int = 0
    nearest: int = 0
    weekdays: int = full(0, 6)
    nth: frozenset[tuple[int, int]] = frozenset()
    either: bool = False

    def year(self, index: int) -> int:
        year_type = _YEAR_TYPE[index]
        days = self._types[year_type]
        if days < 0:
            days = self._types[year_type] = self._days_of(*divmod(year_type, 7))
        return days if self._every_year or self.years >> index & 1 else 0

    @cached_property
    def _types(self) -> list[int]:
        return [-1] * 14

    @cached_property
    def _every_year(self) -> bool:
        return self.years == ALL_YEARS

    @property
    def all(self) -> bool:
        """Return whether the fields match every day."""
        return self == EVERY_DAY

    def _days_of(self, leap: int, weekday: int) -> int:
        days = start = 0
        for month, length in enumerate(MONTH_LENGTHS[leap], 1):
            if self.months >> month & 1:
                days |= self._days_of_month(length, (weekday + start) % 7) << start
            start += length
        return days

    def _days_of_month(self, length: int, first: int) -> int:
        by_date = self.dates >> 1
        for k in members(self.last):
            if k <= length:
                by_date |= 1 << (length - k)
        for day in members(self.nearest):
            by_date |= _nearest_weekday(day, length, first)
        by_weekday = 0
        for weekday in members(self.weekdays):
            by_weekday |= _falling_on(weekday, first)
        for weekday, n in self.nth:
            by_weekday |= _nth_weekday(weekday, n, length, first)
        chosen = by_date | by_weekday if self.either else by_date & by_weekday
        return chosen & ((1 << length) - 1)


EVERY_DAY = FieldDays()


@lru_cache(maxsize=4096)
def shared(days: FieldDays) -> FieldDays:
    """Return one shared object for equal sets of days, so that years are computed once."""
    return days


def _falling_on(weekday: int, first: int) -> int:
    return _MONDAYS << (weekday - first) % 7


def _nth_weekday(weekday: int, n: int, length: int, first: int) -> int:
    start = (weekday - first) % 7 + 1
    day = start + 7 * ((length - start) // 7) if n == LAST else start + 7 * (n - 1)
    return 1 << (day - 1) if day <= length else 0


def _nearest_weekday(day: int, length: int, first: int) -> int:
    """Return the working day nearest to a date, in the same month; 0 if there is no such date."""
    target = day or length
    if target > length:
        return 0
    weekday = (first + target - 1) % 7
    if weekday == 5:
        target += -1 if target > 1 else 2
    elif weekday == 6:
        target += 1 if target < length else -2
    return 1 << (target - 1)


@dataclass(frozen=True)
class StepDays(Days):
    """Every ``step`` days from the day ``first`` on."""

    step: int
    first: int

    def year(self, index: int) -> int:
        start, end = NEW_YEAR[index], NEW_YEAR[index + 1]
        offset = self.first - start if self.first > start else (self.first - start) % self.step
        return self._comb << offset & ((1 << (end - start)) - 1)

    @cached_property
    def _comb(self) -> int:
        return pack(range(0, 366, self.step))


@dataclass(frozen=True)
class StepMonths(Days):
    """The same day of month every ``step`` months from ``first`` on; at most the 28th."""

    step: int
    first: date

    def year(self, index: int) -> int:
        days = start = 0
        since = (FIRST_YEAR + index - self.first.year) * 12 - self.first.month + 1
        for month, length in enumerate(MONTH_LENGTHS[_YEAR_TYPE[index] // 7]):
            if since + month >= 0 and (since + month) % self.step == 0:
                days |= 1 << (start + self.first.day - 1)
            start += length
        return days


@dataclass(frozen=True)
class ListedDays(Days):
    """A list of days."""

    days: frozenset[date]

    def year(self, index: int) -> int:
        return self._years.get(index, 0)

    @cached_property
    def _years(self) -> dict[int, int]:
        return bits_of(self.days)


@dataclass(frozen=True)
class MovedDays(Days):
    """The days that lie ``by`` days before one of a set (after it, if negative)."""

    days: Days
    by: int

    def year(self, index: int) -> int:
        start, end = NEW_YEAR[index], NEW_YEAR[index + 1]
        bits = 0
        for neighbour in range(max(index - 1, 0), min(index + 2, YEARS)):
            shift = NEW_YEAR[neighbour] - start - self.by
            days = self.days.year(neighbour)
            bits |= days << shift if shift > 0 else days >> -shift
        return bits & ((1 << (end - start)) - 1)


@dataclass(frozen=True)
class CommonDays(Days):
    """The days that two sets share."""

    left: Days
    right: Days

    def year(self, index: int) -> int:
        return self.left.year(index) & self.right.year(index)


def bits_of(dates: Iterable[date]) -> dict[int, int]:
    """Return dates as bits, by year."""
    years: dict[int, int] = {}
    for day in dates:
        index = day.year - FIRST_YEAR
        years[index] = years.get(index, 0) | 1 << (day.timetuple().tm_yday - 1)
    return years
