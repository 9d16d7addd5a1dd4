"""The time that a person asks about: ``02:00``, ``Thu 02:00``, ``2026-11-13 02:00``, a datetime.

Text is read in the zone of the schedule. It means a range as long as its precision: ``02:00`` is
the whole minute, because people do not type seconds. Without a date it is the latest such time that
is not in the future.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from duly.errors import InvalidValue
from duly.instants import BEGINNING, HORIZON, from_us, to_us
from duly.model.policies import check_moment
from duly.rules import local_time, zone_names
from duly.rules.zone import zone_named

A_DAY = timedelta(days=1)
_TIME = re.compile(
    r"(?:(?P<word>today|yesterday|(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*)\b,? *)?"
    r"(?:(?P<date>\d{4}-\d\d-\d\d)(?:[ T]+|$))?"
    r"(?:(?P<time>\d{1,2}:\d\d(?::\d\d(?:\.\d{1,6})?)?))?"
    r"(?P<offset>Z|[+-]\d\d:?\d\d)?"
    r"(?: +(?P<zone>[A-Za-z_+\-0-9/]+))?",
    re.IGNORECASE,
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTime:
    """A range of time, from ``start`` (inclusive) to ``until`` (exclusive).

    ``again`` is the start of the second pass, if the clock was set back and the time came twice.
    ``lost`` means that the clock was set forward over the time, so that it did not exist; ``start``
    is then the moment of the clock change.
    """

    start: datetime
    until: datetime
    text: str
    again: datetime | None = None
    lost: bool = False


def read_time(asked: datetime | str, *, zone: str, now: datetime) -> AskedTime:
    if isinstance(asked, datetime):
        check_moment("at", asked)
        start = asked.astimezone(UTC)
        return AskedTime(start=start, until=start + timedelta(microseconds=1), text=str(asked))
    text = asked.strip()
    found = _TIME.fullmatch(text)
    if not text or found is None or not (found["time"] or found["date"] or found["word"]):
        raise _unreadable(asked)
    zone = _zone(found["zone"], zone)
    try:
        clock = time.fromisoformat(found["time"].zfill(5)) if found["time"] else time()
        day = date.fromisoformat(found["date"]) if found["date"] else None
        offset = time.fromisoformat(f"{clock}{(found['offset'] or 'Z').upper()}").tzinfo
    except ValueError:
        raise _unreadable(asked) from None
    if day is not None and not BEGINNING.date() < day < HORIZON.date():
        raise _unreadable(asked)
    length = _precision(found["time"])
    if found["offset"] and day is not None:
        start = datetime.combine(day, clock, offset).astimezone(UTC)
        return AskedTime(start=start, until=start + length, text=text)
    if day is not None:
        return _on(datetime.combine(day, clock), zone, length, text)
    for candidate in _days(found["word"], local_time(now, zone).date()):
        read = _on(datetime.combine(candidate, clock), zone, length, text)
        if read.start <= now:
            return read
    raise _unreadable(asked)


def _days(word: str | None, today: date) -> Iterator[date]:
    """Yield the days that a word may mean, the latest first."""
    word = (word or "").lower()[:3]
    if word in ("tod", "yes"):
        yield today - A_DAY * (word == "yes")
        return
    for back in range(9):
        day = today - back * A_DAY
        if not word or _WEEKDAYS[day.weekday()] == word:
            yield day


def _on(wall: datetime, zone: str, length: timedelta, text: str) -> AskedTime:
    """Return the range at which the zone's clock shows a wall time: never, once or twice."""
    there = zone_named(zone)
    shown = to_us(wall.replace(tzinfo=UTC))
    ends = [*there.starts[1:], None]
    instants = [
        shown - offset
        for begin, end, offset in zip(there.starts, ends, there.offsets, strict=True)
        if begin <= shown - offset and (end is None or shown - offset < end)
    ]
    if not instants:
        k = next(k for k in range(1, len(there.starts)) if _jumps_over(there.gap_before(k), shown))
        start = from_us(there.starts[k])
        return AskedTime(start=start, until=start + length, text=text, lost=True)
    start, again = from_us(instants[0]), from_us(instants[1]) if instants[1:] else None
    return AskedTime(start=start, until=start + length, text=text, again=again)


def _jumps_over(gap: tuple[int, int] | None, wall: int) -> bool:
    return gap is not None and gap[0] <= wall < gap[1]


def _precision(text: str | None) -> timedelta:
    if text is None:
        return A_DAY
    if "." in text:
        return timedelta(microseconds=1)
    return timedelta(minutes=1) if text.count(":") == 1 else timedelta(seconds=1)


def _zone(name: str | None, default: str) -> str:
    if name is None:
        return default
    if name not in zone_names():
        raise InvalidValue(f'"{name}" is not a time zone; without one, {default} is meant')
    return name


def _unreadable(asked: object) -> InvalidValue:
    return InvalidValue(
        f'at={asked!r}: a time that has been, as "02:00", "Thu 02:00" or "2026-11-13 02:00"'
    )
