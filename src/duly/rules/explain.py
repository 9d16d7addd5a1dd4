"""Rules as English sentences, and words for lists, ordinals and runs of numbers.

    Weekdays at 09:00 Europe/Berlin.
    On the 13th of every month and every Friday at 00:00 UTC.
    Every 15 minutes from 09:00 to 17:45 Europe/Berlin.

The sentence is made from the meaning of the rule, not from its text: a cron line and a calendar
expression for the same moments give the same sentence.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import pairwise

from duly.rules.days import (
    ALL_YEARS,
    EVERY_DAY,
    FIRST_YEAR,
    LAST,
    Days,
    FieldDays,
    ListedDays,
    StepDays,
    StepMonths,
    date_of,
    full,
    members,
)
from duly.rules.wall_times import MINUTES, ON_THE_MINUTE, SECOND, WallTimes

FEW_TIMES = 4
FEW_DATES = 3

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def sentence(wall: WallTimes, zone: str) -> str:
    days, times = days_phrase(wall.days), times_phrase(wall.minutes, wall.seconds)
    if days == "every day" and (times.startswith("every") or wall.recurs_hourly):
        said = times
    else:
        said = f"{days} {times}"
    if not (zone == "UTC" and wall.days == EVERY_DAY and wall.recurs_hourly):
        said += f" {zone}" if times.startswith("at") else f", {zone}"
    return f"{said[0].upper()}{said[1:]}."


def days_phrase(days: Days) -> str:
    match days:
        case FieldDays():
            return _fields_phrase(days)
        case StepDays(step, first) if step % 7 == 0:
            weekday = WEEKDAYS[(first + 3) % 7]
            return f"every {plural(step // 7, 'week')} on {weekday} from {date_of(first)}"
        case StepDays(step, first):
            return f"every {plural(step, 'day')} from {date_of(first)}"
        case StepMonths(step, first):
            return f"on the {ordinal(first.day)} every {plural(step, 'month')} from {first}"
        case ListedDays(listed_days):
            return dates_phrase(sorted(listed_days))
        case _:
            return "on some days"


def dates_phrase(dates: Sequence[date]) -> str:
    if len(dates) > FEW_DATES and (dates[-1] - dates[0]).days == len(dates) - 1:
        return f"from {dates[0]} to {dates[-1]}"
    shown = [str(day) for day in dates[:FEW_DATES]]
    if len(dates) > FEW_DATES:
        shown.append(f"{len(dates) - FEW_DATES} more days")
    return f"on {listed(shown)}" if shown else "never"


def times_phrase(minutes: int, seconds: Sequence[int]) -> str:
    if tuple(seconds[:2]) == ON_THE_MINUTE:
        return _minutes_phrase(minutes)
    if len(seconds) == 1 and minutes.bit_count() <= FEW_TIMES:
        second = _second(seconds[0], pad=True)
        return "at " + listed([f"{_clock(minute)}:{second}" for minute in members(minutes)])
    said = _seconds_phrase(seconds)
    if minutes == full(0, MINUTES - 1):
        return said if said.startswith("every") else f"every minute {said}"
    return f"{said} of the minute, {_minutes_phrase(minutes)}"


def _minutes_phrase(minutes: int) -> str:
    times = list(members(minutes))
    if len(times) <= FEW_TIMES:
        return "at " + listed([_clock(time) for time in times])
    step = times[1] - times[0]
    if all(later - time == step for time, later in pairwise(times)):
        every = plural(step // 60, "hour") if step % 60 == 0 else plural(step, "minute")
        if times[-1] + step - MINUTES != times[0]:
            return f"every {every} from {_clock(times[0])} to {_clock(times[-1])}"
        return f"every {every}{_phase(times[0], step)}"
    hour = minutes >> times[0] // 60 * 60 & full(0, 59)
    hours = [h for h in range(24) if minutes >> h * 60 & full(0, 59)]
    if any(minutes >> h * 60 & full(0, 59) != hour for h in hours):
        return f"at {len(times)} times a day"
    past = f"at minute{'s' * (hour.bit_count() > 1)} {runs(members(hour), str)}"
    return f"{past} of {'every hour' if len(hours) == 24 else f'hours {runs(hours, str)}'}"


def _phase(first: int, step: int) -> str:
    if first == 0:
        return ""
    if step == 60:
        return f" at minute {first}"
    return f" from {_clock(first)}"


def _seconds_phrase(seconds: Sequence[int]) -> str:
    step = seconds[1] - seconds[0] if len(seconds) > 1 else 0
    even = step and all(later - second == step for second, later in pairwise(seconds[:60]))
    if even and seconds[0] == 0 and len(seconds) * step == 60 * SECOND:
        return (
            f"every {'' if step == SECOND else f'{_second(step)} '}second{'s' * (step != SECOND)}"
        )
    shown = [_second(second) for second in seconds[: FEW_TIMES + 1]]
    if len(seconds) > len(shown):
        shown[-1] = "…"
    return f"at second{'s' * (len(shown) > 1)} {listed(shown)}"


def _second(value: int, *, pad: bool = False) -> str:
    whole, fraction = divmod(value, SECOND)
    shown = f"{whole:02d}" if pad else str(whole)
    return f"{shown}.{fraction:06d}".rstrip("0") if fraction else shown


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def _fields_phrase(days: FieldDays) -> str:
    by_date = _dates_phrase(days)
    by_weekday = _weekdays_phrase(days)
    months = "" if days.months == full(1, 12) else runs(members(days.months), _month)
    in_months = f" in {months}" if months else ""
    of_months = f" of {months or 'every month'}"
    if by_date and by_weekday and days.either:
        said = f"on {by_date}{of_months} and every {by_weekday}{in_months}"
    elif by_date and by_weekday:
        said = f"every {by_weekday} that is {by_date}{of_months}"
    elif by_date:
        said = f"on {by_date}{of_months}"
    elif days.nth:
        said = f"on {by_weekday}{of_months}"
    else:
        said = f"{_plain_weekdays(days.weekdays)}{in_months}"
    if days.years == ALL_YEARS:
        return said
    return f"{said} in {runs((FIRST_YEAR + index for index in members(days.years)), str)}"


def _dates_phrase(days: FieldDays) -> str:
    if days.dates == full(1, 31):
        return ""
    said = []
    if days.dates:
        said.append("the " + runs(members(days.dates), ordinal))
    if days.last:
        said.append(_last_days(days.last))
    said += [
        f"the weekday nearest the {ordinal(day)}" if day else "the last weekday"
        for day in members(days.nearest)
    ]
    return listed(said)


def _last_days(last: int) -> str:
    if last == 2:
        return "the last day"
    if last == full(1, last.bit_length() - 1):
        return f"one of the last {last.bit_length() - 1} days"
    return (
        "the " + runs(members(last), lambda k: "last" if k == 1 else f"{ordinal(k)} last") + " day"
    )


def _weekdays_phrase(days: FieldDays) -> str:
    if days.weekdays == full(0, 6):
        return ""
    said = [runs(members(days.weekdays), WEEKDAYS.__getitem__)] if days.weekdays else []
    for weekday, n in sorted(days.nth):
        which = "last" if n == LAST else ordinal(n)
        said.append(f"the {which} {WEEKDAYS[weekday]}")
    return listed(said)


def _plain_weekdays(weekdays: int) -> str:
    if weekdays == full(0, 6):
        return "every day"
    if weekdays == full(0, 4):
        return "weekdays"
    return runs(members(weekdays), lambda day: f"{WEEKDAYS[day]}s")


def _month(number: int) -> str:
    return MONTHS[number - 1]


def listed(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b``, or ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def ranges(numbers: Iterable[int], name: Callable[[int], str], to: str) -> list[str]:
    """Name the numbers; three or more in a row become a range: ``1st``, ``5th to 9th``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words: list[str] = []
    for run in runs:
        if len(run) > 2:
            words.append(f"{name(run[0])}{to}{name(run[-1])}")
        else:
            words.extend(map(name, run))
    return words


def runs(numbers: Iterable[int], name: Callable[[int], str]) -> str:
    return listed(ranges(numbers, name, " to "))


def ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def plural(count: int, noun: str) -> str:
    """Return ``hour`` or ``2 hours``, for use after "every"."""
    return noun if count == 1 else f"{count} {noun}s"
