"""The triggers of APScheduler 3, by what ``str`` says of them.

    cron[day_of_week='mon-fri', hour='2', minute='30']     a calendar expression
    interval[1 day, 0:05:00]                               every …
    date[2027-01-01 10:00:00 CET]                          one moment
    or[…, …]                                               joined with |

In its cron, fields before the last one named are ``*``, and those behind it are the least they can
be; weekdays are counted from Monday, 0; every field must hold.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from duly.declare.importers.calendar_text import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    WEEKDAY,
    WEEKDAYS,
    YEAR,
    items,
    weekdays,
)
from duly.durations import show_duration
from duly.errors import RuleError

LEAST: Final = {
    "year": "*",
    "month": "1",
    "day": "1",
    "week": "*",
    "day_of_week": "*",
    "hour": "0",
    "minute": "0",
    "second": "0",
}

_KIND: Final = re.compile(r"(?P<kind>\w+)[\[(](?P<inside>.*)[\])]")
_OPTION: Final = re.compile(r"(\w+)='?([^',]+)'?")
_CRON_OPTION: Final = re.compile(r"(\w+)='([^']*)'")
_LENGTH: Final = re.compile(
    r"(?:(?P<days>\d+) days?, )?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)"
)
_MOMENT: Final = re.compile(r"(?P<day>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d) ?(?P<zone>\S*)")
_POSITION: Final = re.compile(
    r"(?P<place>1st|2nd|3rd|4th|5th|last) +(?P<weekday>\w+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A rule, whether it is in a zone, and whether it says itself when it begins."""

    rule: str
    needs_zone: bool = False
    anchored: bool = False


def read_trigger(row: Mapping[str, Any]) -> Trigger:
    return _read(str(row["trigger"]), row)


def _read(text: str, row: Mapping[str, Any]) -> Trigger:
    found = _KIND.fullmatch(text.strip())
    kind, inside = (found["kind"], found["inside"]) if found else ("", "")
    match kind:
        case "cron":
            return Trigger(_cron(dict(_CRON_OPTION.findall(inside))), needs_zone=True)
        case "interval":
            return _interval(text, inside, row)
        case "date":
            return _date(text, inside, row)
        case "CalendarIntervalTrigger":
            return _calendar_interval(dict(_OPTION.findall(inside)))
        case "or":
            parts = [_read(part, {}) for part in _divided(inside)]
            needs_zone = any(part.needs_zone for part in parts)
            return Trigger(" | ".join(part.rule for part in parts), needs_zone=needs_zone)
        case _:
            raise RuleError(f'"{text}" is no trigger that can be carried: choose a rule')


def _cron(named: Mapping[str, str]) -> str:
    values = _filled(named)
    if values["week"] != "*":
        raise RuleError(f"week='{values['week']}' counts weeks of the year, and no rule here does")
    time = ":".join(
        items(values[name], column)
        for name, column in (("hour", HOUR), ("minute", MINUTE), ("second", SECOND))
    )
    month = f"{items(values['year'], YEAR)}-{items(values['month'], MONTH)}"
    dates = _dates(values["day"], values["day_of_week"])
    return " | ".join(f"{weekday}{month}{day} {time}" for weekday, day in dates)


def _filled(named: Mapping[str, str]) -> dict[str, str]:
    """All fields: ``*`` before the last one that is named, the least behind it."""
    names = list(LEAST)
    last = max((names.index(name) for name in named if name in LEAST), default=-1)
    return {
        name: named.get(name, "*" if place < last else LEAST[name])
        for place, name in enumerate(names)
    }


def _dates(day: str, weekday: str) -> Iterator[tuple[str, str]]:
    """Weekdays and a day of the month, for each way in which the day is named."""
    parts = [part.strip() for part in day.split(",")]
    special = [part for part in parts if part.lower() == "last" or _POSITION.fullmatch(part)]
    plain = ",".join(part for part in parts if part not in special)
    if plain:
        yield weekdays(weekday, WEEKDAY), f"-{items(plain, DAY)}"
    for part in special:
        found = _POSITION.fullmatch(part)
        if not found:
            yield weekdays(weekday, WEEKDAY), "~01"
        elif weekday != "*":
            raise RuleError(f"day='{part}' and day_of_week='{weekday}' are two weekdays at once")
        else:
            yield f"{WEEKDAYS[WEEKDAY.number(found['weekday'])]} ", _week(found["place"].lower())


def _week(place: str) -> str:
    """``3rd`` is from the 15th to the 21st."""
    if place == "last":
        return "~07/1"
    first = 7 * (int(place[0]) - 1) + 1
    return f"-{first:02d}..{min(first + 6, 31):02d}"


def _interval(text: str, inside: str, row: Mapping[str, Any]) -> Trigger:
    found = _LENGTH.fullmatch(inside)
    if not found:
        raise RuleError(f'"{text}" names no length of time')
    parts = {name: float(value or 0) for name, value in found.groupdict().items()}
    rule = f"every {show_duration(timedelta(**parts))}"
    start = str(row.get("start_date") or "")
    if not start:
        return Trigger(rule)
    return Trigger(f"{rule} from {datetime.fromisoformat(start).isoformat()}", anchored=True)


def _date(text: str, inside: str, row: Mapping[str, Any]) -> Trigger:
    if row.get("run_date"):
        return Trigger(datetime.fromisoformat(str(row["run_date"])).isoformat(), anchored=True)
    found = _MOMENT.fullmatch(inside)
    if not found:
        raise RuleError(f'"{text}" names no moment')
    in_utc = found["zone"] in ("UTC", "GMT", "Z")
    rule = f"{found['day']}T{found['time']}{'Z' if in_utc else ''}"
    return Trigger(rule, needs_zone=not in_utc, anchored=True)


def _calendar_interval(options: Mapping[str, str]) -> Trigger:
    """So many days, weeks, months or years; two of them at once is no rule here."""
    units = [name for name in ("days", "weeks", "months", "years") if name in options]
    if len(units) != 1:
        raise RuleError(f"{' and '.join(units)} at once is no step that can be carried")
    unit = units[0]
    step = f"every {options[unit]} {unit} at {options['time'][:8]} from {options['start_date']}"
    return Trigger(step, needs_zone=True, anchored=True)


def _divided(inside: str) -> Iterator[str]:
    """The triggers of a list, each with its own brackets."""
    depth, start = 0, 0
    for at, char in enumerate(inside):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            yield inside[start:at]
            start = at + 1
    yield inside[start:]
