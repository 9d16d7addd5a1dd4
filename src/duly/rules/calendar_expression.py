"""A parsed calendar expression: its components, their values and their text.

A component is a list of items; an item is a value, a range or a repetition. The text is systemd's
normalised form: items sorted, the end of a range moved to its last value, weekdays joined.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from duly.rules.days import EVERY_DAY, FIRST_YEAR, LAST_YEAR, FieldDays, full, members, pack, shared
from duly.rules.explain import ranges
from duly.rules.wall_times import MINUTE, SECOND, WallTimes, minutes_of_day

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
ANY_WEEKDAY = full(0, 6)


class Component(NamedTuple):
    """A component of a date or a time. Seconds are counted in microseconds."""

    name: str
    low: int
    high: int
    width: int = 2
    unit: int = 1


YEAR = Component("year", FIRST_YEAR, LAST_YEAR, width=4)
MONTH = Component("month", 1, 12)
DAY = Component("day", 1, 31)
DAY_FROM_END = Component("day before the month's end", 1, 28)
HOUR = Component("hour", 0, 23)
MINUTE_PART = Component("minute", 0, 59)
SECOND_PART = Component("second", 0, MINUTE - 1, unit=SECOND)


class Item(NamedTuple):
    """``start``, ``start..stop``, ``start/step`` or ``start..stop/step``; -1 for no stop.

    The fields are in this order because systemd sorts by them.
    """

    start: int
    stop: int = -1
    step: int = 0

    def values(self, part: Component) -> range:
        if part is DAY_FROM_END and self.step and self.stop < 0:
            return range(self.start, 0, -self.step)  # ~7/1 runs towards the month's end
        if self.stop < 0:
            return range(self.start, (part.high if self.step else self.start) + 1, self.step or 1)
        return range(self.start, self.stop + 1, self.step or part.unit)


Items = tuple[Item, ...]
ANY: Items = ()  # a star


@dataclass(frozen=True)
class Expression:
    """A calendar expression, read but not yet placed in a zone."""

    weekdays: int = ANY_WEEKDAY
    year: Items = ANY
    month: Items = ANY
    day: Items = ANY
    from_end: bool = False
    hour: Items = (Item(0),)
    minute: Items = (Item(0),)
    second: Items = (Item(0),)

    def days(self) -> FieldDays:
        days = _bits(self.day, DAY_FROM_END if self.from_end else DAY)
        named = FieldDays(
            years=_bits(self.year, YEAR) >> FIRST_YEAR,
            months=_bits(self.month, MONTH),
            dates=0 if self.from_end else days,
            last=days if self.from_end else 0,
            weekdays=self.weekdays,
        )
        return shared(named)

    def wall(self) -> WallTimes:
        hours, minutes = _bits(self.hour, HOUR), _bits(self.minute, MINUTE_PART)
        return WallTimes(self.days(), minutes_of_day(hours, minutes), _seconds(self.second))

    @property
    def fixed(self) -> bool:
        """Return whether it has fixed times of day, instead of repeating through the day."""
        return not any(
            items == ANY or any(item.start == 0 and item.step and item.stop < 0 for item in items)
            for items in (self.hour, self.minute)
        )

    @property
    def fractional(self) -> bool:
        return any(number % SECOND for item in self.second for number in (item.start, item.step))

    @property
    def names(self) -> str | None:
        if _bits(self.hour, HOUR) != full(0, 23):
            return "an hour"
        return None if self.days() == EVERY_DAY else "a day"

    def __str__(self) -> str:
        named = ranges(members(self.weekdays), WEEKDAYS.__getitem__, "..")
        weekdays = "" if self.weekdays == ANY_WEEKDAY else f"{','.join(named)} "
        mark = "~" if self.from_end else "-"
        date = f"{_text(self.year, YEAR)}-{_text(self.month, MONTH)}{mark}{_text(self.day, DAY)}"
        time = f"{_text(self.hour, HOUR)}:{_text(self.minute, MINUTE_PART)}"
        return f"{weekdays}{date} {time}:{_text(self.second, SECOND_PART)}"


def _values(items: Items, part: Component) -> Iterator[int]:
    for item in items:
        yield from item.values(part)


def _bits(items: Items, part: Component) -> int:
    return pack(_values(items, part)) if items else full(part.low, part.high)


def _seconds(items: Items) -> Sequence[int]:
    spans = [item.values(SECOND_PART) for item in items] or [range(0, MINUTE, SECOND)]
    if len(spans) == 1 and len(spans[0]) > 60:
        return spans[0]  # a step may be as fine as a microsecond: too many to list
    return tuple(sorted({value for span in spans for value in span}))


def _text(items: Items, part: Component) -> str:
    return ",".join(_item_text(item, part) for item in items) if items else "*"


def _item_text(item: Item, part: Component) -> str:
    stop = f"..{show(item.stop, part)}" if item.stop >= 0 else ""
    step = f"/{show(item.step, part._replace(width=0))}" if item.step else ""
    return f"{show(item.start, part)}{stop}{step}"


def show(value: int, part: Component) -> str:
    if part.unit == 1:
        return f"{value:0{part.width}d}" if part.width else str(value)
    whole, fraction = divmod(value, SECOND)
    shown = f"{whole:0{part.width}d}" if part.width else str(whole)
    return f"{shown}.{fraction:06d}" if fraction else shown
