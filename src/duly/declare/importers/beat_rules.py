"""A schedule of Celery Beat as a rule.

Schedules are known by how they look, so Celery need not be there: seconds, a ``timedelta``, what
has ``run_every``, a crontab by its ``_orig_minute`` and fellows, a row with ``minute`` and fellows,
a moment. What the sun decides is refused.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from duly.declare.importers.calendar_text import (
    CRON_WEEKDAY,
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    items,
    weekdays,
)
from duly.durations import show_duration
from duly.errors import RuleError, ZoneMissing

FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")

_LONG_NAME: Final = re.compile(r"([A-Za-z]{3})[A-Za-z]+")  # Celery looks at three letters


def rule_of(schedule: object, zone: str | None) -> tuple[str, str | None]:
    """The rule, and the zone it is in: None where it needs none."""
    if schedule is None:
        raise RuleError("it has no schedule: choose a rule")
    if isinstance(schedule, datetime):
        return schedule.isoformat(), None
    length = _length(schedule)
    if length is not None:
        return f"every {show_duration(length)}", None
    if _get(schedule, "event"):
        raise RuleError(
            f"the sun decides when it runs ({_get(schedule, 'event')}), and no rule here knows the "
            "sun: choose a time of day"
        )
    fields = _fields(schedule)
    if fields is None:
        raise RuleError(f"{schedule!r} is no schedule that is known here: choose a rule")
    found = _zone(schedule) or zone
    if found is None:
        kept = "a crontab in these tables" if isinstance(schedule, Mapping) else "a beat_schedule"
        raise ZoneMissing(
            f"{kept} has no zone: pass what app.conf.timezone says, as --zone "
            "Europe/Berlin, or --zone UTC if it was never set"
        )
    return _cron(fields), found


def _length(schedule: object) -> timedelta | None:
    found = getattr(schedule, "run_every", schedule)
    if isinstance(found, int | float) and not isinstance(found, bool):
        return timedelta(seconds=found)
    return found if isinstance(found, timedelta) else None


def _fields(schedule: object) -> list[str] | None:
    if isinstance(schedule, Mapping):
        found = [schedule.get(name) for name in FIELDS]
    else:
        found = [getattr(schedule, f"_orig_{name}", None) for name in FIELDS]
    if all(value is None for value in found):
        return None
    return ["*" if value is None else _field(value) for value in found]


def _field(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(sorted(map(str, value), key=lambda item: (len(item), item)))
    return str(value).replace(" ", "")


def _cron(fields: Sequence[str]) -> str:
    minute, hour, day, month, weekday = fields
    if day.startswith("*") or weekday.startswith("*"):
        return " ".join((minute, hour, day, month, _LONG_NAME.sub(r"\1", weekday)))
    date = f"{weekdays(weekday, CRON_WEEKDAY)}*-{items(month, MONTH)}-{items(day, DAY)}"
    return f"{date} {items(hour, HOUR)}:{items(minute, MINUTE)}"


def _zone(schedule: object) -> str | None:
    """Only what the schedule itself was given: a crontab of Celery's asks its app otherwise."""
    if isinstance(schedule, Mapping):
        return str(schedule["timezone"]) if schedule.get("timezone") else None
    found = getattr(schedule, "__dict__", {}).get("tz")
    return None if found is None else str(found)


def _get(schedule: object, name: str) -> object:
    return schedule.get(name) if isinstance(schedule, Mapping) else getattr(schedule, name, None)
