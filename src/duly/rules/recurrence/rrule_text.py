"""The text of a recurrence, as RFC 5545 has it: DTSTART, RRULE, RDATE and EXDATE.

    DTSTART;TZID=Europe/Berlin:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE

The properties may be on separate lines or on one line, in any order. A time stays a wall time in
its zone: if the zone's rules change, an EXDATE still matches its moment.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from math import gcd
from typing import Any, NamedTuple

from duly.errors import RuleError, ZoneMissing
from duly.instants import from_us, to_us
from duly.rules.days import FIRST_YEAR, LAST_YEAR
from duly.rules.rule_text import check_size, checked_zone, close_to
from duly.rules.wall_times import MINUTES
from duly.rules.zone import unknown_zone, zone_names

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


LONGEST = 1024

PROPERTIES = ("DTSTART", "RRULE", "RDATE", "EXDATE")
EXAMPLE = "DTSTART;TZID=Europe/Berlin:20260105T090000"

# Each pattern costs a lookup of 2 µs in every query. A step of 59 minutes makes 59 patterns.
MOST_PATTERNS = 300

_STAMP = re.compile(r"(?P<day>\d{8})(?P<time>T\d{6}(?P<utc>Z)?)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_WEEKDAY = re.compile(r"(?P<n>[+-]?\d{1,2})?(?P<weekday>[A-Z]{2})", re.ASCII)


class RecurrenceText(NamedTuple):
    """The parts of a recurrence's text."""

    start: Stamp
    recur: Recur
    dates: tuple[Stamp, ...]
    exceptions: tuple[Stamp, ...]
    dst: str


def read_text(text: str, *, zone: str | None, dst: str) -> RecurrenceText:
    check_size(text, LONGEST)
    words = [PlacedWord(text, found[0], found.start()) for found in re.finditer(r"\S+", text)]
    if words and words[-1].text.startswith("dst="):
        dst = words.pop().text.removeprefix("dst=")
    named = words.pop() if words and _is_zone(words[-1]) else None
    found: dict[str, list[Property]] = {name: [] for name in PROPERTIES}
    for word in words:
        written = _property(word)
        found[written.name].append(written)
    start = _start(text, found, named.text if named else checked_zone(zone))
    if named and _zone(named, named.text) != start.zone:
        raise named.error(f"DTSTART is in {start.zone} already, so {named.text} cannot be its zone")
    return RecurrenceText(
        start,
        _recur(found["RRULE"][0], start.zone),
        _stamps(found["RDATE"], start.zone),
        _stamps(found["EXDATE"], start.zone, timed=found["DTSTART"][0].timed),
        dst,
    )


@dataclass(frozen=True)
class PlacedWord:
    """A word with its position in the whole text, for error messages."""

    source: str
    text: str
    start: int

    def error(self, message: str, part: str = "", suggestions: Sequence[str] = ()) -> RuleError:
        return RuleError(message, **self.place(part), suggestions=suggestions)

    def place(self, part: str) -> dict[str, Any]:
        at = max(self.text.upper().find(part.upper()), 0)
        return {"text": self.source, "position": self.start + at}


@dataclass(frozen=True)
class Property:
    """A property: its name, its value, and the zone and type of its times."""

    word: PlacedWord
    name: str
    value: str
    zone: str | None = None
    kind: str | None = None

    @property
    def timed(self) -> bool:
        return "T" in self.value


def _property(word: PlacedWord) -> Property:
    head, colon, value = word.text.partition(":")
    name, *parameters = head.split(";")
    name = name.upper()
    if name not in PROPERTIES or not colon:
        known = ", ".join(PROPERTIES[:-1])
        hint = f"; write RRULE:{word.text}" if name.startswith("FREQ=") else ""
        message = f'"{word.text}" is not {known} or {PROPERTIES[-1]} with a colon and a value{hint}'
        raise word.error(message, "", () if hint else close_to(name, PROPERTIES))
    zone = kind = None
    for parameter in parameters:
        key, _, meant = parameter.partition("=")
        if key.upper() == "TZID" and name != "RRULE":
            zone = _zone(word, meant.strip('"'))
        elif key.upper() == "VALUE" and meant.upper() in ("DATE", "DATE-TIME") and name != "RRULE":
            kind = meant.upper()
        else:
            possible = "nothing" if name == "RRULE" else "TZID=…, VALUE=DATE or VALUE=DATE-TIME"
            raise word.error(f'"{parameter}" cannot follow {name}; {possible} can', parameter)
    return Property(word, name, value.upper(), zone, kind)


def _start(text: str, found: dict[str, list[Property]], zone: str | None) -> Stamp:
    for name in ("RRULE", "DTSTART"):
        if len(found[name]) > 1:
            extra = found[name][1].word
            raise extra.error(f"a recurrence has one {name}; join two rules with |")
    if not found["RRULE"]:
        message = f'"{text}" has no RRULE; write "{EXAMPLE} RRULE:FREQ=WEEKLY;BYDAY=MO,WE"'
        raise RuleError(message, text=text, position=len(text))
    if not found["DTSTART"]:
        message = f'"{text}" does not say when it starts; write "{EXAMPLE} {text.strip()}"'
        raise RuleError(message, text=text, position=0)
    written = found["DTSTART"][0]
    if "," in written.value:
        raise written.word.error("DTSTART is one time, not a list", ",")
    return _stamp(written, written.value, zone)


def _stamps(properties: Iterable[Property], zone: str, *, timed: bool = False) -> tuple[Stamp, ...]:
    stamps = set()
    for written in properties:
        for value in written.value.split(","):
            stamps.add(_stamp(written, value, zone))
            if timed and "T" not in value:
                raise written.word.error(
                    f"{written.name} {value} is a day, but the rule has times of day; write the "
                    f"time to leave out, as in {value}T090000",
                    value,
                )
    return tuple(sorted(stamps))


def _stamp(written: Property, value: str, zone: str | None) -> Stamp:
    found = _STAMP.fullmatch(value)
    if not found or (written.kind and (written.kind == "DATE") == bool(found["time"])):
        form = "20260105" if written.kind == "DATE" else "20260105T090000, or 20260105T080000Z"
        message = f'"{value}" ({written.name}) is not a {written.kind or "time"} such as {form}'
        raise written.word.error(message, value)
    wall = _wall(written, value, f"{found['day']}{found['time'] or 'T000000'}"[:15])
    if found["utc"]:
        if written.zone:
            raise written.word.error(f"{value} is in UTC, so TZID={written.zone} cannot be", value)
        return Stamp("UTC", wall)
    if not (written.zone or zone):
        raise ZoneMissing(
            f"{written.name}:{value} is a wall time, so it needs a time zone: write "
            f'"{written.name};TZID=Europe/Berlin:{value}", or pass zone="Europe/Berlin" (or UTC)',
            **written.word.place(value),
        )
    return Stamp(written.zone or _zone(written.word, zone or ""), wall)


def _wall(written: Property, value: str, digits: str) -> int:
    try:
        moment = datetime.strptime(digits, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        message = f'"{value}" ({written.name}) is not on the calendar or not on the clock'
        raise written.word.error(message, value) from None
    # An UNTIL in the year 9999 means no end; other times out of range are mistakes.
    if not FIRST_YEAR <= moment.year <= LAST_YEAR and written.name != "UNTIL":
        years = f"the years {FIRST_YEAR} to {LAST_YEAR}"
        raise written.word.error(f"{written.name} {value} is outside {years}", value)
    return to_us(moment)


def _recur(written: Property, zone: str) -> Recur:
    parts: dict[str, Any] = {}
    for pair in filter(None, written.value.split(";")):
        name, _, value = pair.partition("=")
        if name not in PARTS:
            message = f'"{pair}" is not one of {", ".join(PARTS)}'
            raise written.word.error(message, pair, close_to(name, PARTS))
        key, meaning = _meaning(written, name, value, zone)
        if key in parts:
            raise written.word.error(f"{name} is there twice; write its values as a list", pair)
        parts[key] = meaning
    if "frequency" not in parts:
        message = f'"{written.word.text}" has no FREQ; write RRULE:FREQ=DAILY'
        raise written.word.error(message)
    recur = Recur(**parts)
    _check(written.word, recur)
    return recur


def _meaning(written: Property, name: str, value: str, zone: str) -> tuple[str, object]:
    word = written.word
    if name == "UNTIL":
        return "until", _stamp(Property(word, "UNTIL", value), value, zone)
    if name == "FREQ":
        return "frequency", Frequency[_one_of(word, value, "FREQ", Frequency.__members__)]
    if name == "WKST":
        return "week_start", WEEKDAYS.index(_one_of(word, value, "WKST", WEEKDAYS))
    if name == "BYDAY":
        return "weekdays", _listed(value, lambda item: _weekday(word, item))
    limits = ONE_NUMBER.get(name)
    if limits:
        return limits.name, _number(word, value, name, limits)
    limits = BY_NUMBERS[name]
    return limits.name, _listed(value, lambda item: _number(word, item, name, limits))


def _listed(value: str, read: Callable[[str], Any]) -> tuple[Any, ...]:
    return tuple(sorted({read(item) for item in value.split(",")}))


def _one_of(word: PlacedWord, value: str, name: str, known: Iterable[str]) -> str:
    known = tuple(known)
    if value not in known:
        message = f'{name}="{value}" is not one of {", ".join(known)}'
        raise word.error(message, f"{name}=", close_to(value, known))
    return value


def _number(word: PlacedWord, item: str, name: str, limits: NumberRange) -> int:
    if not _NUMBER.fullmatch(item):
        raise word.error(f'"{item}" ({name}) is not a number in the range {limits}', f"{name}=")
    if not limits.hold(int(item)):
        raise word.error(f"{name} {item} is out of range {limits}", f"{name}=")
    return int(item)


def _weekday(word: PlacedWord, item: str) -> tuple[int, int]:
    found = _WEEKDAY.fullmatch(item)
    if not found or found["weekday"] not in WEEKDAYS:
        message = (
            f'"{item}" (BYDAY) is not one of {", ".join(WEEKDAYS)}, or with a number: 2TU, -1FR'
        )
        raise word.error(message, "BYDAY=")
    n = int(found["n"] or 0)
    if found["n"] and not 1 <= abs(n) <= 53:
        raise word.error(f"BYDAY {item} is out of range 1–53 or -53–-1", "BYDAY=")
    return WEEKDAYS.index(found["weekday"]), n


def _check(word: PlacedWord, recur: Recur) -> None:
    """Refuse parts that exclude each other."""
    frequency = recur.frequency.name
    if recur.count and recur.until:
        raise word.error("COUNT and UNTIL both end the rule; keep one of them", "UNTIL=")
    if any(n for _, n in recur.weekdays):
        if recur.frequency > Frequency.MONTHLY:
            message = f"a BYDAY with a number is for MONTHLY and YEARLY, not for {frequency}"
            raise word.error(message, "BYDAY=")
        if recur.week_numbers:
            raise word.error("a BYDAY with a number cannot be beside BYWEEKNO", "BYDAY=")
    if recur.positions and recur.frequency > Frequency.DAILY:
        message = f"BYSETPOS is for DAILY and longer, not for {frequency}; name the times instead"
        raise word.error(f"{message}, with BYHOUR, BYMINUTE and BYSECOND", "BYSETPOS=")
    _check_steps(word, recur)


def _check_steps(word: PlacedWord, recur: Recur) -> None:
    """Refuse steps that make too many different patterns of a day."""
    if recur.frequency < Frequency.MINUTELY:
        return
    step, unit = recur.interval, "m"
    if recur.frequency is Frequency.SECONDLY:
        if step % 60 and 60 % step:
            message = f"{step} seconds neither divide a minute nor are whole minutes"
            raise word.error(f'{message}; for elapsed time write "every {step}s"', "INTERVAL=")
        step, unit = step // 60, "s"
    if min(step, MINUTES) // gcd(step, MINUTES) > MOST_PATTERNS:
        message = f"{step} minutes drift through the day in more than {MOST_PATTERNS} patterns"
        elapsed = f"every {recur.interval}{unit}"
        raise word.error(f'{message}; for elapsed time write "{elapsed}"', "INTERVAL=")


def _is_zone(word: PlacedWord) -> bool:
    return not set(word.text) & set(":;=,")


def _zone(word: PlacedWord, name: str) -> str:
    name = "UTC" if name.upper() == "UTC" else name
    if name not in zone_names():
        raise unknown_zone(name, **word.place(name))
    return name
