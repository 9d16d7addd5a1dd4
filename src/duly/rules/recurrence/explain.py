"""A recurrence as an English sentence.

Every 2 weeks on Monday and Wednesday at 09:00 Europe/Berlin, from 2026-01-05, 10 times.
Every month on the last Friday at 17:00 UTC, from 2026-01-30; except 2026-12-25 17:00.
Every 2 hours on Monday to Friday in hours 8 to 18, from 2026-01-05 08:00 Europe/Berlin.
"""

from collections.abc import Sequence

from duly.instants import from_us
from duly.rules.bitset import pack
from duly.rules.explain import MONTHS, WEEKDAYS, listed, ordinal, plural, runs, times_phrase
from duly.rules.recurrence.rrule_parts import Frequency, Recur, Stamp
from duly.rules.wall_times import MINUTE, SECOND, minutes_of_day

FEW_DATES = 3

_PERIODS = ("year", "month", "week", "day", "hour", "minute", "second")


def sentence(
    recur: Recur, start: Stamp, *, dates: Sequence[Stamp] = (), exceptions: Sequence[Stamp] = ()
) -> str:
    """Return a sentence for a recurrence; from DAILY up it must be completed by DTSTART."""
    said = f"every {plural(recur.interval, _PERIODS[recur.frequency])}{_days(recur)}"
    if recur.frequency > Frequency.DAILY:
        said += f"{_limits(recur)}, from {_shown(start)} {start.zone}"
    else:
        minutes = minutes_of_day(pack(recur.hours), pack(recur.minutes))
        seconds = [second * SECOND for second in recur.seconds]
        said += f" {times_phrase(minutes, seconds)} {start.zone}"
        said += f", only {_which(recur.positions)} of them" if recur.positions else ""
        said += f", from {from_us(start.wall):%Y-%m-%d}"
    if recur.count:
        said += ", once" if recur.count == 1 else f", {recur.count} times"
    if recur.until:
        said += f", until {_shown(recur.until, start.zone)}"
    said += f"; also {_times(dates, start.zone)}" if dates else ""
    said += f"; except {_times(exceptions, start.zone)}" if exceptions else ""
    return f"{said[0].upper()}{said[1:]}."


def _days(recur: Recur) -> str:
    months = runs(recur.months, lambda number: MONTHS[number - 1])
    named = [phrase for phrase in (_weekdays(recur), _dates(recur), _year_days(recur)) if phrase]
    said = f" on {named[0]}" if named else ""
    said += f" if it is {' and '.join(named[1:])}" if named[1:] else ""
    if recur.week_numbers:
        positive = [number for number in recur.week_numbers if number > 0]
        weeks = [f"week {runs(positive, str)}"] if positive else []
        negative = [number for number in recur.week_numbers if number < 0]
        weeks += [f"{_which(negative)} week of the year"] if negative else []
        said += f" in {listed(weeks)}"
    if months:
        said += f" {'of' if recur.month_days and not recur.weekdays else 'in'} {months}"
    return said


def _weekdays(recur: Recur) -> str:
    each = runs((day for day, n in recur.weekdays if not n), WEEKDAYS.__getitem__)
    if each and recur.frequency < Frequency.WEEKLY:
        each = f"every {each}"
    counted = [f"{_which([n])} {WEEKDAYS[day]}" for day, n in recur.weekdays if n]
    if counted and recur.frequency is Frequency.YEARLY and not recur.months:
        counted[-1] += " of the year"
    return listed([*([each] if each else []), *counted])


def _dates(recur: Recur) -> str:
    dates = [day for day in recur.month_days if day > 0]
    said = [f"the {runs(dates, ordinal)}"] if dates else []
    said += [f"{_which([day])} day" for day in recur.month_days if day < 0]
    return listed(said)


def _year_days(recur: Recur) -> str:
    return f"{_which(recur.year_days)} day of the year" if recur.year_days else ""


def _limits(recur: Recur) -> str:
    said = f" in hours {runs(recur.hours, str)}" if recur.hours else ""
    said += f" at minutes {runs(recur.minutes, str)}" if recur.minutes else ""
    return said + (f" at seconds {runs(recur.seconds, str)}" if recur.seconds else "")


def _which(numbers: Sequence[int]) -> str:
    """Return ``the 1st, 3rd and last``; numbers from the end come last."""
    forward = runs((number for number in numbers if number > 0), ordinal)
    back = [
        "last" if number == -1 else f"{ordinal(-number)} last" for number in numbers if number < 0
    ]
    return "the " + listed([*([forward] if forward else []), *back])


def _times(stamps: Sequence[Stamp], zone: str) -> str:
    shown = [_shown(stamp, zone) for stamp in stamps[:FEW_DATES]]
    if len(stamps) > FEW_DATES:
        shown.append(f"{len(stamps) - FEW_DATES} more times")
    return listed(shown)


def _shown(stamp: Stamp, zone: str | None = None) -> str:
    """Return a time, with its zone if that differs from ``zone``."""
    moment = from_us(stamp.wall)
    shown = f"{moment:%Y-%m-%d %H:%M:%S}" if stamp.wall % MINUTE else f"{moment:%Y-%m-%d %H:%M}"
    return shown if zone in (None, stamp.zone) else f"{shown} {stamp.zone}"
