"""Sets of wall-clock times, without a zone.

A wall time is an integer: microseconds since 1970-01-01 00:00:00 local time. ``WallTimes`` is
days x minutes of the day x seconds of the minute. To find the next member, search in the smallest
unit and carry to the larger one; all units below the carried one restart at their first value.
(systemd misses that reset, so its ``*:0/7`` never runs at 00:00.)
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from duly.rules.days import Days, ListedDays, count_below, full, highest

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MINUTES = 24 * 60

ON_THE_MINUTE = (0,)


@dataclass(frozen=True)
class WallTimes:
    """Days x minutes of the day (1440 bits) x microseconds of the minute (sorted)."""

    days: Days
    minutes: int
    seconds: Sequence[int] = ON_THE_MINUTE

    def next(self, wall: int) -> int | None:
        minute, rest = divmod(wall, MINUTE)
        today, minute = divmod(minute, MINUTES)
        day = self.days.next(today)
        if day is None:
            return None
        if day == today:
            later = self.minutes >> minute
            if later & 1 and rest <= self.seconds[-1]:
                second = self.seconds[bisect_left(self.seconds, rest)] if rest else self.seconds[0]
                return (day * MINUTES + minute) * MINUTE + second
            later >>= 1
            if later:
                minute += (later & -later).bit_length()
                return (day * MINUTES + minute) * MINUTE + self.seconds[0]
            day = self.days.next(today + 1)
            if day is None:
                return None
        first = (self.minutes & -self.minutes).bit_length() - 1
        return (day * MINUTES + first) * MINUTE + self.seconds[0]

    def previous(self, wall: int) -> int | None:
        minute, rest = divmod(wall, MINUTE)
        today, minute = divmod(minute, MINUTES)
        day = self.days.previous(today)
        if day is None:
            return None
        if day == today:
            if self.minutes >> minute & 1 and rest >= self.seconds[0]:
                second = self.seconds[bisect_right(self.seconds, rest) - 1]
                return (day * MINUTES + minute) * MINUTE + second
            earlier = highest(self.minutes, minute - 1) if minute else -1
            if earlier >= 0:
                return (day * MINUTES + earlier) * MINUTE + self.seconds[-1]
            day = self.days.previous(today - 1)
            if day is None:
                return None
        last = self.minutes.bit_length() - 1
        return (day * MINUTES + last) * MINUTE + self.seconds[-1]

    def count_before(self, wall: int) -> int:
        minute, rest = divmod(wall, MINUTE)
        today, minute = divmod(minute, MINUTES)
        seconds = len(self.seconds)
        count = self.days.count_before(today) * self.minutes.bit_count() * seconds
        if self.days.next(today) == today:
            count += count_below(self.minutes, minute) * seconds
            if self.minutes >> minute & 1:
                count += bisect_left(self.seconds, rest)
        return count

    @property
    def recurs_hourly(self) -> bool:
        """Return whether every hour has the same minutes."""
        return self.minutes == minutes_of_day(full(0, 23), self.minutes & full(0, 59))

    def __and__(self, other: "WallTimes") -> "WallTimes":
        minutes = self.minutes & other.minutes
        seconds = _common(*sorted((self.seconds, other.seconds), key=len))
        if not (minutes and seconds):
            return NO_TIME
        return WallTimes(self.days & other.days, minutes, seconds)


NO_TIME = WallTimes(ListedDays(frozenset()), 1)


def _common(few: Sequence[int], many: Sequence[int]) -> Sequence[int]:
    """Return the common members of two sorted sequences; those of two ranges are a range."""
    if not (isinstance(few, range) and isinstance(many, range)):
        return [second for second in few if _holds(many, second)]
    step = lcm(few.step, many.step)
    first = next((second for second in few[: step // few.step] if second in many), None)
    return range(0) if first is None else range(first, min(few[-1], many[-1]) + 1, step)


def _holds(ordered: Sequence[int], wanted: int) -> bool:
    at = bisect_left(ordered, wanted)
    return at < len(ordered) and ordered[at] == wanted


def minutes_of_day(hours: int, minutes: int) -> int:
    """Return the minutes of a day as 1440 bits, from its hours and the minutes of each hour."""
    day = 0
    for hour in range(24):
        if hours >> hour & 1:
            day |= minutes << hour * 60
    return day
