"""What cron lines and calendars mean, worked out the slow way, to compare the rules with.

Written from the description of the rules and not from their code. A line is built as a structure
and printed as text for the rules to read; here the structure itself is asked, never the text.
There are no bit sets, no carrying and no tables of zone changes: every minute of a day is held
against the fields, every day of a stretch against the date, and ``zoneinfo`` is asked where each
wall time lies, in both folds and back again. A wall time that does not come back is in a gap, one
that comes back from two instants is in a fold.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Literal, Protocol, cast
from zoneinfo import ZoneInfo

Gap = Literal["skip", "end", "shift"]
Fold = Literal["first", "last", "both"]

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)

LONGEST_MADE_UP = 3 * HOUR
FIRST_DAY = date(1970, 1, 1)
LAST_DAY = date(2199, 12, 31)

DST_CHOICES = (
    *("cron", "systemd", "elapsed", "quartz"),
    *(f"{gap}/{fold}" for gap in ("skip", "end", "shift") for fold in ("first", "last", "both")),
)


class Spec(Protocol):
    """Wall times, as fields that can be asked one by one."""

    @property
    def text(self) -> str: ...

    @property
    def fixed(self) -> bool:
        """Whether it names its time of day instead of repeating through the day."""

    def __hash__(self) -> int: ...

    def holds_on(self, day: date) -> bool: ...

    def holds_hour(self, hour: int) -> bool: ...

    def holds_minute(self, minute: int) -> bool: ...

    def seconds(self) -> list[timedelta]:
        """The places in a minute at which it happens."""


# -- the walk ----------------------------------------------------------------------------------


def moments(spec: Spec, zone: str, dst: str, *, start: datetime, end: datetime) -> list[datetime]:
    """Every moment of the rule that is later than ``start`` and not later than ``end``, in UTC."""
    gap, fold = knobs(dst, fixed=spec.fixed)
    clock = clock_of(zone)
    margin = LONGEST_MADE_UP + largest_jump(zone, start, end)
    first = start.astimezone(clock).replace(tzinfo=None) - margin
    last = end.astimezone(clock).replace(tzinfo=None) + margin
    found = {
        moment
        for wall in walls(spec, first, last)
        for moment in instants(wall, clock, gap=gap, fold=fold)
    }
    return sorted(moment for moment in found if start < moment <= end)


def walls(spec: Spec, first: datetime, last: datetime) -> Iterator[datetime]:
    """The wall times of the rule in all minutes of a stretch, whether they exist or not."""
    minutes, seconds = minutes_of_day(spec), spec.seconds()
    day = max(first.date(), FIRST_DAY)
    while day <= min(last.date(), LAST_DAY):
        if spec.holds_on(day):
            for minute in minutes:
                begins = datetime.combine(day, time()) + minute
                if first - MINUTE < begins <= last:
                    yield from (begins + second for second in seconds)
        day += DAY


@lru_cache(maxsize=1024)
def minutes_of_day(spec: Spec) -> list[timedelta]:
    return [
        hour * HOUR + minute * MINUTE
        for hour in range(24)
        if spec.holds_hour(hour)
        for minute in range(60)
        if spec.holds_minute(minute)
    ]


def instants(wall: datetime, clock: ZoneInfo, *, gap: Gap, fold: Fold) -> list[datetime]:
    """When a wall time happens: once, or as ``gap`` and ``fold`` have it."""
    passes = occurrences(wall, clock)
    if passes:
        return {"first": passes[:1], "last": passes[-1:], "both": passes}[fold]
    lost = offset(wall, clock, fold=1) - offset(wall, clock, fold=0)
    if gap == "skip" or lost > LONGEST_MADE_UP:
        return []
    if gap == "shift":
        return occurrences(wall + lost, clock)
    return [end_of_gap(wall, clock)]


def occurrences(wall: datetime, clock: ZoneInfo) -> list[datetime]:
    """The instants at which the clock on the wall shows this time: none, one or two."""
    candidates = {wall.replace(tzinfo=clock, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(
        instant
        for instant in candidates
        if instant.astimezone(clock).replace(tzinfo=None, fold=0) == wall
    )


def offset(wall: datetime, clock: ZoneInfo, *, fold: int) -> timedelta:
    """In a gap, fold 0 has the offset from before the change, and fold 1 the one from after."""
    return cast(timedelta, wall.replace(tzinfo=clock, fold=fold).utcoffset())


def end_of_gap(lost: datetime, clock: ZoneInfo) -> datetime:
    """The first second after the change that lost this wall time."""
    before = (lost - offset(lost, clock, fold=1)).replace(tzinfo=UTC)
    after = (lost - offset(lost, clock, fold=0)).replace(tzinfo=UTC)
    return first_change(clock, before, after)


def first_change(clock: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The second of the one change of offset that lies between two instants."""
    old = before.astimezone(clock).utcoffset()
    before, after = before.replace(microsecond=0), after.replace(microsecond=0)
    while after - before > SECOND:
        middle = before + (after - before) // 2 // SECOND * SECOND
        changed = middle.astimezone(clock).utcoffset() != old
        before, after = (before, middle) if changed else (middle, after)
    return after


def knobs(dst: str, *, fixed: bool) -> tuple[Gap, Fold]:
    presets: dict[str, tuple[Gap, Fold]] = {
        "cron": ("end", "first") if fixed else ("skip", "both"),
        "systemd": ("skip", "first"),
        "elapsed": ("skip", "both"),
        "quartz": ("skip", "last"),
    }
    if dst in presets:
        return presets[dst]
    gap, fold = dst.split("/")
    return cast(Gap, gap), cast(Fold, fold)


# -- zones, from the data that the rules use and read by the standard library --------------------


@cache
def clock_of(zone: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=zone)


@cache
def changes_of(zone: str, first_year: int, last_year: int) -> list[datetime]:
    """Every change of offset in these years, found by looking at the clock once a day."""
    clock = clock_of(zone)
    start, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    days = [start + n * DAY for n in range((end - start).days + 1)]
    offsets = [day.astimezone(clock).utcoffset() for day in days]
    return [
        first_change(clock, day, day + DAY)
        for day, (before, after) in zip(days, pairwise(offsets), strict=False)
        if before != after
    ]


def largest_jump(zone: str, start: datetime, end: datetime) -> timedelta:
    """How far the offset moves in a stretch and in the day before and after it."""
    clock = clock_of(zone)
    days = range((end - start) // DAY + 4)
    offsets = [cast(timedelta, (start + (n - 1) * DAY).astimezone(clock).utcoffset()) for n in days]
    return max(offsets) - min(offsets)


# -- cron lines ----------------------------------------------------------------------------------

MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class Column:
    """A field of a cron line: what it is called, and its lowest and highest value."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


SECONDS = Column("second", 0, 59)
MINUTES = Column("minute", 0, 59)
HOURS = Column("hour", 0, 23)
DATES = Column("day of month", 1, 31)
MONTHS = Column("month", 1, 12, MONTH_NAMES)
WEEKDAYS = Column("day of week", 0, 7, DAY_NAMES)  # Sunday is 0, and 7 as well


@dataclass(frozen=True)
class Star:
    step: int | None = None

    def text(self, _: Column) -> str:
        return "*" if self.step is None else f"*/{self.step}"

    def values(self, column: Column) -> Sequence[int]:
        return range(column.low, column.high + 1)[:: self.step]


@dataclass(frozen=True)
class Value:
    value: int
    named: bool = False

    def text(self, column: Column) -> str:
        return spelled(self.value, column, named=self.named)

    def values(self, _: Column) -> Sequence[int]:
        return [self.value]


@dataclass(frozen=True)
class Open:
    """``a/n``: from a to the end of the field."""

    first: int
    step: int

    def text(self, _: Column) -> str:
        return f"{self.first}/{self.step}"

    def values(self, column: Column) -> Sequence[int]:
        last = 6 if column is WEEKDAYS and self.first < 7 else column.high
        return range(self.first, last + 1)[:: self.step]


@dataclass(frozen=True)
class Span:
    """``a-b`` or ``a-b/n``: from a to b, past the end of the field if b is the smaller."""

    first: int
    last: int
    step: int | None = None
    named: bool = False

    def text(self, column: Column) -> str:
        first = spelled(self.first, column, named=self.named)
        last = spelled(self.last, column, named=self.named)
        return f"{first}-{last}" + ("" if self.step is None else f"/{self.step}")

    def values(self, column: Column) -> Sequence[int]:
        if self.first <= self.last:
            return range(self.first, self.last + 1)[:: self.step]
        highest = 6 if column is WEEKDAYS else column.high
        value = 0 if column is WEEKDAYS and self.first == 7 else self.first
        met = [value]
        while value != self.last:
            value = column.low if value == highest else value + 1
            met.append(value)
        return met[:: self.step]


@dataclass(frozen=True)
class LastDay:
    """``L`` and ``L-3``: the last day of the month, and so many days before it."""

    before: int = 0

    def text(self, _: Column) -> str:
        return f"L-{self.before}" if self.before else "L"

    def holds_on(self, day: date) -> bool:
        return (day + self.before * DAY).month == day.month and (
            day + (self.before + 1) * DAY
        ).month != day.month


@dataclass(frozen=True)
class Nearest:
    """``15W`` and ``LW``: the weekday of the month that is nearest to the date."""

    near: int | None

    def text(self, _: Column) -> str:
        return "LW" if self.near is None else f"{self.near}W"

    def holds_on(self, day: date) -> bool:
        return day == nearest_workday(day.year, day.month, self.near)


@dataclass(frozen=True)
class Nth:
    """``FRI#2`` and ``5L``: the second Friday of the month, and its last."""

    weekday: int
    n: int | None
    named: bool = False

    def text(self, column: Column) -> str:
        weekday = spelled(self.weekday, column, named=self.named)
        return f"{weekday}L" if self.n is None else f"{weekday}#{self.n}"

    def holds_on(self, day: date) -> bool:
        alike = days_alike(day.year, day.month, self.weekday % 7)
        if self.n is None:
            return day == alike[-1]
        return day in alike[self.n - 1 : self.n]


Number = Star | Value | Open | Span
Special = LastDay | Nearest | Nth
Term = Number | Special


@dataclass(frozen=True)
class CronLine:
    """Five fields, or six."""

    minute: tuple[Number, ...] = (Star(),)
    hour: tuple[Number, ...] = (Star(),)
    day: tuple[Term, ...] = (Star(),)
    month: tuple[Number, ...] = (Star(),)
    weekday: tuple[Term, ...] = (Star(),)
    second: tuple[Number, ...] | None = None

    @property
    def text(self) -> str:
        columns: list[tuple[tuple[Term, ...], Column]] = [
            *([(self.second, SECONDS)] if self.second else []),
            (self.minute, MINUTES),
            (self.hour, HOURS),
            (self.day, DATES),
            (self.month, MONTHS),
            (self.weekday, WEEKDAYS),
        ]
        return " ".join(",".join(term.text(column) for term in terms) for terms, column in columns)

    @property
    def fixed(self) -> bool:
        return not (isinstance(self.minute[0], Star) or isinstance(self.hour[0], Star))

    def holds_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        dates, other_dates = self.dates
        weekdays, other_weekdays = self.weekdays
        by_date = day.day in dates or any(term.holds_on(day) for term in other_dates)
        by_weekday = cron_weekday(day) in weekdays or any(
            term.holds_on(day) for term in other_weekdays
        )
        if isinstance(self.day[0], Star) or isinstance(self.weekday[0], Star):
            return by_date and by_weekday
        return by_date or by_weekday

    @cached_property
    def months(self) -> set[int]:
        return numbered(self.month, MONTHS)[0]

    @cached_property
    def dates(self) -> tuple[set[int], list[Special]]:
        return numbered(self.day, DATES)

    @cached_property
    def weekdays(self) -> tuple[set[int], list[Special]]:
        return numbered(self.weekday, WEEKDAYS)

    def holds_hour(self, hour: int) -> bool:
        return any(hour in term.values(HOURS) for term in self.hour)

    def holds_minute(self, minute: int) -> bool:
        return any(minute in term.values(MINUTES) for term in self.minute)

    def seconds(self) -> list[timedelta]:
        terms: tuple[Number, ...] = self.second or (Value(0),)
        return [n * SECOND for n in range(60) if any(n in term.values(SECONDS) for term in terms)]


def numbered(terms: Sequence[Term], column: Column) -> tuple[set[int], list[Special]]:
    """The numbers that a field gives, and what it says in other ways."""
    special = [term for term in terms if isinstance(term, Special)]
    numbers = [term for term in terms if not isinstance(term, Special)]
    values = {value for term in numbers for value in term.values(column)}
    return values | {0} if column is WEEKDAYS and 7 in values else values, special


def spelled(value: int, column: Column, *, named: bool) -> str:
    return column.names[(value - column.low) % len(column.names)] if named else str(value)


def cron_weekday(day: date) -> int:
    return day.isoweekday() % 7


def days_of_month(day: date) -> list[date]:
    """All the days of the month that a day is in."""
    return _days_of_month(day.year, day.month)


@cache
def nearest_workday(year: int, month: int, near: int | None) -> date | None:
    """The workday that is nearest to a date of the month, or to its last day."""
    days = _days_of_month(year, month)
    target = days[-1].day if near is None else near
    if target > days[-1].day:
        return None
    workdays = [each for each in days if each.weekday() < 5]
    return min(workdays, key=lambda each: abs(each.day - target))


@cache
def days_alike(year: int, month: int, weekday: int) -> list[date]:
    """The days of the month that fall on a weekday; Sunday is 0."""
    return [each for each in _days_of_month(year, month) if cron_weekday(each) == weekday]


@cache
def _days_of_month(year: int, month: int) -> list[date]:
    days = [date(year, month, 1) + n * DAY for n in range(31)]
    return [day for day in days if day.month == month]


# -- calendar expressions --------------------------------------------------------------------------

LONG_DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Item:
    """``a``, ``a..b``, ``a/n`` or ``a..b/n``. Seconds are counted in microseconds."""

    start: int
    stop: int | None = None
    step: int | None = None

    def text(self, *, seconds: bool = False) -> str:
        show = shown_seconds if seconds else str
        stop = "" if self.stop is None else f"..{show(self.stop)}"
        return show(self.start) + stop + ("" if self.step is None else f"/{show(self.step)}")

    def holds(self, value: int, unit: int = 1) -> bool:
        if self.stop is None and self.step is None:
            return value == self.start
        if value < self.start or (self.stop is not None and value > self.stop):
            return False
        return (value - self.start) % (self.step or unit) == 0

    def holds_from_end(self, value: int) -> bool:
        """``~7/1`` runs forwards, to the end of the month: the seventh last day to the last."""
        if self.stop is None and self.step is not None:
            return value <= self.start and (self.start - value) % self.step == 0
        return self.holds(value)


Items = tuple[Item, ...]
EVERY: Items = ()


@dataclass(frozen=True)
class CalendarExpression:
    """Weekdays, a date and a time of day; an empty tuple is a star."""

    weekdays: tuple[tuple[int, int], ...] = ()  # Monday is 0; from, to
    year: Items = EVERY
    month: Items = EVERY
    day: Items = EVERY
    from_end: bool = False
    hour: Items = (Item(0),)
    minute: Items = (Item(0),)
    second: Items = (Item(0),)

    @property
    def text(self) -> str:
        mark = "~" if self.from_end else "-"
        date_text = f"{listed(self.year)}-{listed(self.month)}{mark}{listed(self.day)}"
        time_text = f"{listed(self.hour)}:{listed(self.minute)}:{listed(self.second, seconds=True)}"
        weekdays = ",".join(
            LONG_DAY_NAMES[first][:3]
            if first == last
            else f"{LONG_DAY_NAMES[first]}..{LONG_DAY_NAMES[last][:3]}"
            for first, last in self.weekdays
        )
        return f"{weekdays} {date_text} {time_text}".lstrip()

    @property
    def fixed(self) -> bool:
        return not (repeats(self.hour) or repeats(self.minute))

    def holds_on(self, day: date) -> bool:
        if self.weekdays and not any(a <= day.weekday() <= b for a, b in self.weekdays):
            return False
        if not (holds(self.year, day.year) and holds(self.month, day.month)):
            return False
        if not self.from_end:
            return holds(self.day, day.day)
        from_end = days_of_month(day)[-1].day - day.day + 1
        return not self.day or any(item.holds_from_end(from_end) for item in self.day)

    def holds_hour(self, hour: int) -> bool:
        return holds(self.hour, hour)

    def holds_minute(self, minute: int) -> bool:
        return holds(self.minute, minute)

    def seconds(self) -> list[timedelta]:
        if not self.second:
            return [n * SECOND for n in range(60)]
        found = set()
        for item in self.second:
            value = item.start * MICROSECOND
            stop = (item.stop if item.stop is not None else item.start) * MICROSECOND
            if item.stop is None and item.step is not None:
                stop = MINUTE - MICROSECOND
            while value <= stop:
                found.add(value)
                value += SECOND if item.step is None else item.step * MICROSECOND
        return sorted(found)


def holds(items: Items, value: int) -> bool:
    return not items or any(item.holds(value) for item in items)


def repeats(items: Items) -> bool:
    """Whether a cron line would begin this field with a star."""
    return not items or any(
        item.start == 0 and item.stop is None and item.step is not None for item in items
    )


def listed(items: Items, *, seconds: bool = False) -> str:
    return ",".join(item.text(seconds=seconds) for item in items) if items else "*"


def shown_seconds(microseconds: int) -> str:
    whole, fraction = divmod(microseconds, 1_000_000)
    return f"{whole}.{fraction:06d}".rstrip("0") if fraction else str(whole)
