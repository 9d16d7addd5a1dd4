"""Recurrences: the RRULE of RFC 5545, in a zone, with the choice made for clock changes.

    DTSTART;TZID=Europe/Berlin:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=10

DTSTART fills in what the RRULE leaves out; it is a moment itself only if the RRULE matches it. The
wall times (see ``wall_times``) are placed in the zone like those of any rule. The result starts at
DTSTART, ends at UNTIL or with the COUNT-th moment, includes the RDATEs and excludes the EXDATEs.

For ``dst="cron"`` a recurrence is **fixed** from DAILY up, and a **wildcard** below.

The interpretation is that of dateutil where the RFC is ambiguous (BYWEEKNO alone is the whole
week), and that of the RFC where dateutil contradicts it: ``BYDAY=MO,2TU`` matches both, BYSETPOS
picks from the whole week of DTSTART, and week numbers are correct across years.

A recurrence as an English sentence.

Every 2 weeks on Monday and Wednesday at 09:00 Europe/Berlin, from 2026-01-05, 10 times.
Every month on the last Friday at 17:00 UTC, from 2026-01-30; except 2026-12-25 17:00.
Every 2 hours on Monday to Friday in hours 8 to 18, from 2026-01-05 08:00 Europe/Berlin.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from duly.errors import RuleError
from duly.instants import FIRST_US, from_us
from duly.rules.days import pack
from duly.rules.explain import MONTHS, WEEKDAYS, listed, ordinal, plural, runs, times_phrase
from duly.rules.modifiers import Bounded
from duly.rules.once import Moments
from duly.rules.recurrence.rrule_text import LONGEST, Frequency, Recur, Stamp, completed, read_text
from duly.rules.recurrence.wall_times import wall_times
from duly.rules.rule import Minus, Rule, SameMoments, Union
from duly.rules.rule_text import check_size, never_occurs
from duly.rules.wall_times import DAY, MINUTE, SECOND, minutes_of_day
from duly.rules.zone import Dst, dst_policy, windows, zone_named
from duly.rules.zoned import Zoned


def rrule(text: str, *, zone: str | None = None, dst: str = "cron") -> Rule:
    """Read a recurrence; ``zone`` is for a DTSTART without a zone."""
    source = read_text(text, zone=zone, dst=dst)
    policy = dst_policy(source.dst, fixed=source.recur.frequency <= Frequency.DAILY)
    rule = Recurrence(source.start, source.recur, source.dates, source.exceptions, policy)
    check_size(str(rule), LONGEST)
    if rule.clock.after_us(rule.first - 1) is None:
        raise never_occurs(text)
    if rule.after_us(FIRST_US) is None:
        message = f'"{text}" never occurs: UNTIL and EXDATE leave nothing of it'
        raise RuleError(message, text=text, position=0)
    return rule


@dataclass(frozen=True, repr=False)
class Recurrence(SameMoments):
    """An RRULE with its DTSTART, RDATE and EXDATE."""

    start: Stamp
    recur: Recur
    dates: tuple[Stamp, ...]
    exceptions: tuple[Stamp, ...]
    dst: Dst

    @property
    def zone(self) -> str:  # type: ignore[override]
        return self.start.zone

    @property
    def expands(self) -> bool:
        return True

    def shared_count_us(self, others: Sequence[Rule], after: int, until: int) -> int:
        return self.inner.shared_count_us(others, after, until)

    def explain(self) -> str:
        named = self._completed if self.recur.frequency <= Frequency.DAILY else self.recur
        return sentence(named, self.start, dates=self.dates, exceptions=self.exceptions)

    def __str__(self) -> str:
        said = [_written("DTSTART", [self.start]), f"RRULE:{self.recur}"]
        for name, stamps in (("RDATE", self.dates), ("EXDATE", self.exceptions)):
            groups = groupby(stamps, lambda stamp: stamp.zone)
            said += [_written(name, list(group)) for _, group in groups]
        return " ".join(said if self.dst.name == "cron" else [*said, f"dst={self.dst.name}"])

    @cached_property
    def clock(self) -> Zoned:
        """The moments of the RRULE alone, from the day of DTSTART on and without an end."""
        wall = wall_times(self._completed, from_us(self.start.wall))
        return Zoned(wall, self.zone, self.dst, str(self))

    @cached_property
    def first(self) -> int:
        return _instants(self.start, self.dst)[0]

    @cached_property
    def _completed(self) -> Recur:
        return completed(self.recur, from_us(self.start.wall))

    @cached_property
    def inner(self) -> Rule:
        """The moments of the recurrence, with its bounds, RDATEs and EXDATEs."""
        until = self.recur.until
        last = _instants(until, self.dst)[-1] if until else None
        rule: Rule = Bounded(self.clock, self.first, last, self.recur.count)
        if self.dates:
            rule = Union((rule, self._moments(self.dates)))
        return Minus(rule, self._moments(self.exceptions)) if self.exceptions else rule

    def _moments(self, stamps: Iterable[Stamp]) -> Moments:
        found = {instant for stamp in stamps for instant in _instants(stamp, self.dst)}
        return Moments(tuple(sorted(found)))


def _instants(stamp: Stamp, dst: Dst) -> list[int]:
    """Return the instants of a wall time: one, two in a fold; in a gap by the ``dst`` policy."""
    zone = zone_named(stamp.zone)
    lows, highs = windows(zone, dst.fold)
    nearby = range(zone.segment(stamp.wall - DAY), zone.segment(stamp.wall + DAY) + 1)
    found = [stamp.wall - zone.offsets[k] for k in nearby if lows[k] <= stamp.wall < highs[k]]
    if found:
        return found
    lost_in = next(k for k in nearby[1:] if stamp.wall < zone.starts[k] + zone.offsets[k])
    if dst.gap == "shift":
        return [stamp.wall - zone.offsets[lost_in - 1]]
    return [zone.starts[lost_in]]


def _written(name: str, stamps: Sequence[Stamp]) -> str:
    zone = stamps[0].zone
    return f"{name}{'' if zone == 'UTC' else f';TZID={zone}'}:{','.join(map(str, stamps))}"


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
