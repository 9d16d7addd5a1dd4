"""The triggers of APScheduler 3, read from their ``str``.

    cron[day_of_week='mon-fri', hour='2', minute='30']     a calendar expression
    interval[1 day, 0:05:00]                               every …
    date[2027-01-01 10:00:00 CET]                          one moment
    CalendarIntervalTrigger(months=1, time='09:00:00', …)  every … at …
    or[…, …]                                               joined with |

In its cron, unset fields before the last one set are ``*``, and those after it have their minimum.
Weekdays are counted from Monday (0), and every field must match.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from duly.declare.importers.cron_to_calendar import (
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
from duly.rules import at
from duly.rules.zone import zone_names

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
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_EVERY_MONTH_HAS: Final = 28  # days; a later day is skipped in some months, as in a recurrence
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_POSITION: Final = re.compile(
    r"(?P<place>1st|2nd|3rd|4th|5th|last) +(?P<weekday>\w+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A rule, whether it needs a zone, and whether it has its own start."""

    rule: str
    needs_zone: bool = False
    anchored: bool = False
    zone: str | None = None  # of the trigger itself
    lost: tuple[str, ...] = ()


def read_trigger(row: Mapping[str, Any]) -> Trigger:
    return _read(str(row["trigger"]), row)


def last_moment(found: object, zone: str | None) -> datetime | None:
    """Return the end of a trigger; a date means the end of that day."""
    if found in (None, "", "None"):
        return None
    text = str(found)
    if _DAY.fullmatch(text):
        return at(f"{text}T23:59:59", zone=zone or "UTC").after(_LONG_AGO)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _read(text: str, row: Mapping[str, Any]) -> Trigger:
    found = _KIND.fullmatch(text.strip())
    kind, inside = (found["kind"], found["inside"]) if found else ("", "")
    match kind:
        case "cron":
            rule = _cron(dict(_CRON_OPTION.findall(inside)))
            return Trigger(rule, needs_zone=True, zone=_zone(row))
        case "interval":
            return _interval(text, inside, row)
        case "date":
            return _date(text, inside, row)
        case "CalendarIntervalTrigger":
            return replace(_calendar_interval(dict(_OPTION.findall(inside))), zone=_zone(row))
        case "or":
            return _either(row.get("triggers") or [{"trigger": part} for part in _divided(inside)])
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
    """Fill in unset fields: ``*`` before the last one that is set, the minimum after it."""
    names = list(LEAST)
    last = max((names.index(name) for name in named if name in LEAST), default=-1)
    return {
        name: named.get(name, "*" if place < last else LEAST[name])
        for place, name in enumerate(names)
    }


def _dates(day: str, weekday: str) -> Iterator[tuple[str, str]]:
    """Yield weekdays and day of month for each part of the day field."""
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
    return Trigger(rule, needs_zone=not in_utc, anchored=True, zone=_zone(row))


def _calendar_interval(options: Mapping[str, str]) -> Trigger:
    """Convert an interval of days, weeks, months or years; a mix of them is refused."""
    units = [name for name in ("days", "weeks", "months", "years") if name in options]
    if len(units) != 1:
        raise RuleError(f"{' and '.join(units)} at once is no step that can be carried")
    unit, start, time = units[0], options["start_date"], options["time"][:8]
    if unit in ("months", "years") and int(start[8:]) > _EVERY_MONTH_HAS:
        compact = f"{start}T{time}".replace("-", "").replace(":", "")
        rule = f"DTSTART:{compact} RRULE:FREQ={unit[:-1].upper()}LY;INTERVAL={options[unit]}"
    else:
        rule = f"every {options[unit]} {unit} at {time} from {start}"
    return Trigger(rule, needs_zone=True, anchored=True)


def _either(rows: Sequence[Mapping[str, Any]]) -> Trigger:
    """Join several triggers, each with its own zone and bounds."""
    parts = [(row, read_trigger(row)) for row in rows]
    zones = {part.zone for _, part in parts if part.needs_zone}
    one_zone = len(zones) < 2  # otherwise every rule must name its own zone
    if not one_zone and None in zones:
        raise RuleError("some of its triggers name a zone and some do not: choose a rule for each")
    rules = []
    for row, part in parts:
        own = f" {part.zone}" if part.needs_zone and not one_zone else ""
        rules.append(f"{part.rule}{own}{_bounds(row, part)}")
    lost = ("the jitter of its triggers",) if any(row.get("jitter") for row in rows) else ()
    return Trigger(
        " | ".join(rules),
        needs_zone=one_zone and bool(zones),
        anchored=True,
        zone=zones.pop() if one_zone and zones else None,
        lost=lost,
    )


def _bounds(row: Mapping[str, Any], trigger: Trigger) -> str:
    start = None if trigger.anchored else row.get("start_date")
    end = last_moment(row.get("end_date"), trigger.zone)
    said = "" if start is None else f" start={datetime.fromisoformat(str(start)).isoformat()}"
    return said if end is None else f"{said} end={end.isoformat()}"


def _zone(row: Mapping[str, Any]) -> str | None:
    named = str(row.get("timezone") or "")
    return named if named in zone_names() else None


def _divided(inside: str) -> Iterator[str]:
    """Split a list of triggers at commas outside of brackets."""
    depth, start = 0, 0
    for place, char in enumerate(inside):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            yield inside[start:place]
            start = place + 1
    yield inside[start:]
