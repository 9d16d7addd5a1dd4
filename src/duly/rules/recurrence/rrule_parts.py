"""The parts of a parsed RRULE, and times in zones."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple

from duly.instants import from_us

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

Numbers = tuple[int, ...]


class Frequency(IntEnum):
    """The period that a recurrence repeats in, from the longest to the shortest."""

    YEARLY = 0
    MONTHLY = 1
    WEEKLY = 2
    DAILY = 3
    HOURLY = 4
    MINUTELY = 5
    SECONDLY = 6


class Stamp(NamedTuple):
    """A wall time in a zone; in ``UTC`` it is an instant."""

    zone: str
    wall: int

    def __str__(self) -> str:
        return f"{from_us(self.wall):%Y%m%dT%H%M%S}{'Z' * (self.zone == 'UTC')}"


class NumberRange(NamedTuple):
    """The range of numbers of a part; ``signed`` numbers may also count from the end."""

    name: str
    low: int
    high: int
    signed: bool = False

    def hold(self, number: int) -> bool:
        return self.low <= (abs(number) if self.signed else number) <= self.high

    def __str__(self) -> str:
        negative = f" or -{self.high}–-{self.low}" if self.signed else ""
        return f"{self.low}–{self.high}{negative}"


BY_NUMBERS = {
    "BYMONTH": NumberRange("months", 1, 12),
    "BYWEEKNO": NumberRange("week_numbers", 1, 53, signed=True),
    "BYYEARDAY": NumberRange("year_days", 1, 366, signed=True),
    "BYMONTHDAY": NumberRange("month_days", 1, 31, signed=True),
    "BYHOUR": NumberRange("hours", 0, 23),
    "BYMINUTE": NumberRange("minutes", 0, 59),
    "BYSECOND": NumberRange("seconds", 0, 59),
    "BYSETPOS": NumberRange("positions", 1, 366, signed=True),
}
ONE_NUMBER = {
    "INTERVAL": NumberRange("interval", 1, 999_999_999),
    "COUNT": NumberRange("count", 1, 999_999_999),
}
PARTS = ("FREQ", *ONE_NUMBER, "UNTIL", "WKST", "BYDAY", *BY_NUMBERS)


@dataclass(frozen=True, kw_only=True)
class Recur:
    """An RRULE. An empty part is not set; weekdays are (weekday, n), with n = 0 for every one."""

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: Stamp | None = None
    week_start: int = 0
    months: Numbers = ()
    week_numbers: Numbers = ()
    year_days: Numbers = ()
    month_days: Numbers = ()
    weekdays: tuple[tuple[int, int], ...] = ()
    hours: Numbers = ()
    minutes: Numbers = ()
    seconds: Numbers = ()
    positions: Numbers = ()

    def __str__(self) -> str:
        said = [f"FREQ={self.frequency.name}"]
        if self.interval > 1:
            said.append(f"INTERVAL={self.interval}")
        if self.count:
            said.append(f"COUNT={self.count}")
        if self.until:
            said.append(f"UNTIL={self.until}")
        if self.week_start:
            said.append(f"WKST={WEEKDAYS[self.week_start]}")
        if self.weekdays:
            days = (f"{n or ''}{WEEKDAYS[weekday]}" for weekday, n in self.weekdays)
            said.append(f"BYDAY={','.join(days)}")
        for part, limits in BY_NUMBERS.items():
            if numbers := getattr(self, limits.name):
                said.append(f"{part}={','.join(map(str, numbers))}")
        return ";".join(said)


def completed(recur: Recur, start: datetime) -> Recur:
    """Fill in the parts that DTSTART determines."""
    if not (recur.week_numbers or recur.year_days or recur.month_days or recur.weekdays):
        match recur.frequency:
            case Frequency.YEARLY:
                months = recur.months or (start.month,)
                recur = replace(recur, months=months, month_days=(start.day,))
            case Frequency.MONTHLY:
                recur = replace(recur, month_days=(start.day,))
            case Frequency.WEEKLY:
                recur = replace(recur, weekdays=((start.weekday(), 0),))
            case _:
                pass
    if recur.frequency < Frequency.HOURLY:
        recur = replace(recur, hours=recur.hours or (start.hour,))
    if recur.frequency < Frequency.MINUTELY:
        recur = replace(recur, minutes=recur.minutes or (start.minute,))
    if recur.frequency < Frequency.SECONDLY:
        recur = replace(recur, seconds=recur.seconds or (start.second,))
    return recur
