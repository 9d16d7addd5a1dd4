"""Conversion of cron-like fields to a calendar expression, in which every field must match.

In Celery and APScheduler day of month *and* weekday must match; a cron line with both matches
either. A calendar expression matches both.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from duly.errors import RuleError

WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)

_ITEM: Final = re.compile(
    r"(?:(?P<star>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class FieldRange:
    """The numbers that a field can have, and their names."""

    name: str
    low: int
    high: int
    names: Mapping[str, int]

    def number(self, word: str) -> int:
        number = self.names.get(word.lower()[:3], int(word) if word.isdigit() else -1)
        if not self.low <= number <= self.high:
            raise RuleError(f'"{word}" is not a {self.name}')
        return number


SECOND: Final = FieldRange("second", 0, 59, {})
MINUTE: Final = FieldRange("minute", 0, 59, {})
HOUR: Final = FieldRange("hour", 0, 23, {})
DAY: Final = FieldRange("day of the month", 1, 31, {})
MONTH: Final = FieldRange("month", 1, 12, {name: place for place, name in enumerate(MONTHS, 1)})
YEAR: Final = FieldRange("year", 1970, 2199, {})
# Cron counts weekdays from Sunday (0 or 7), APScheduler from Monday (0).
CRON_WEEKDAY: Final = FieldRange(
    "weekday", 0, 7, {name.lower(): (place + 1) % 7 for place, name in enumerate(WEEKDAYS)}
)
WEEKDAY: Final = FieldRange(
    "weekday", 0, 6, {name.lower(): place for place, name in enumerate(WEEKDAYS)}
)


def items(text: str, column: FieldRange) -> str:
    """Convert ``*/5`` to ``00/5`` and ``1-5`` to ``01..05``, lists item by item."""
    return ",".join(_item(item, column) for item in text.replace(" ", "").split(","))


def weekdays(text: str, column: FieldRange) -> str:
    """Return ``Mon,Tue``, or an empty text for every day."""
    numbers = {
        number for item in text.replace(" ", "").split(",") for number in _values(item, column)
    }
    from_monday = {(number - 1) % 7 if column is CRON_WEEKDAY else number for number in numbers}
    if len(from_monday) == 7:
        return ""
    return f"{','.join(WEEKDAYS[number] for number in sorted(from_monday))} "


def _item(item: str, column: FieldRange) -> str:
    found = _found(item, column)
    if found["star"]:
        step = found["step"]
        if not step or step == "1":
            return "*"
        if int(step) <= column.high - column.low:
            return f"{column.low:02d}/{step}"
        return f"{column.low:02d}"
    low = column.number(found["low"])
    if not found["high"]:  # 5/15: from 5 to the end
        return f"{low:02d}" + (f"/{found['step']}" if found["step"] else "")
    high = column.number(found["high"])
    if high < low:
        return ",".join(f"{value:02d}" for value in _values(item, column))
    step = f"/{found['step']}" if found["step"] else ""
    return f"{low:02d}..{high:02d}{step}"


def _values(item: str, column: FieldRange) -> Sequence[int]:
    found = _found(item, column)
    step = max(int(found["step"] or 1), 1)
    if found["star"]:
        return range(column.low, column.high + 1, step)
    low = column.number(found["low"])
    last = column.high if found["step"] else low
    high = column.number(found["high"]) if found["high"] else last
    if low <= high:
        return range(low, high + 1, step)
    return [*range(low, column.high + 1), *range(column.low, high + 1)][::step]


def _found(item: str, column: FieldRange) -> re.Match[str]:
    found = _ITEM.fullmatch(item)
    if not found:
        raise RuleError(f'"{item}" is not a {column.name}, a range or a step')
    return found
