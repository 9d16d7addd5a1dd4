"""Reading the offset changes of a time zone from its TZif file (RFC 9636).

``zoneinfo`` reads the same files but does not expose when the offset changes, which exact counting
needs. The file lists the changes up to its horizon; later ones follow from the POSIX rule in its
last line.
"""

import re
import struct
from collections.abc import Iterator
from datetime import date, timedelta

Change = tuple[int, int]  # (the second at which it happens, the offset from then on in seconds)

_HEADER = struct.Struct(">4sc15x6l")
_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_TIME = r"[+-]?\d+(?::\d+){0,2}"
_FOOTER = re.compile(
    rf"{_NAME}(?P<standard>{_TIME})(?:{_NAME}(?P<summer>{_TIME})?,(?P<start>[^,]+),(?P<end>[^,]+))?"
)
_HOUR = 3600
_EPOCH = date(1970, 1, 1)


def read_changes(data: bytes, last_year: int) -> tuple[int, list[Change]]:
    """Return the zone's first offset, and every change of offset up to ``last_year``."""
    block = _end_of_block(data, 0, time_size=4)  # the 32-bit block is only there for old readers
    _, _, _, time_count, type_count, _ = _counts(data, block)
    times_at = block + _HEADER.size
    indexes_at = times_at + 8 * time_count
    types_at = indexes_at + time_count
    offsets = [
        struct.unpack_from(">l", data, types_at + 6 * index)[0] for index in range(type_count)
    ]
    times = struct.unpack_from(f">{time_count}q", data, times_at)
    changes = [(second, offsets[data[indexes_at + k]]) for k, second in enumerate(times)]
    footer = data[_end_of_block(data, block, time_size=8) :].strip(b"\n").decode("ascii")
    horizon = times[-1] if times else -1
    first_year = (_EPOCH + timedelta(seconds=horizon)).year
    changes += [
        change for change in _rule_changes(footer, first_year, last_year) if change[0] > horizon
    ]
    return offsets[0], list(_real_changes(offsets[0], changes))


def _counts(data: bytes, at: int) -> tuple[int, ...]:
    magic, _, *counts = _HEADER.unpack_from(data, at)
    if magic != b"TZif":
        raise ValueError("not a TZif file")
    return tuple(counts)


def _end_of_block(data: bytes, at: int, *, time_size: int) -> int:
    ut_count, wall_count, leaps, times, types, names = _counts(data, at)
    size = times * (time_size + 1) + types * 6 + names + leaps * (time_size + 4)
    return at + _HEADER.size + size + ut_count + wall_count


def _real_changes(offset: int, changes: list[Change]) -> Iterator[Change]:
    """Drop changes of only the name or the summer-time flag."""
    for second, new in changes:
        if new != offset:
            yield second, new
        offset = new


def _rule_changes(footer: str, first_year: int, last_year: int) -> Iterator[Change]:
    found = _FOOTER.fullmatch(footer)
    if found is None or found["start"] is None:
        return
    standard = -_seconds(found["standard"])
    summer = -_seconds(found["summer"]) if found["summer"] else standard + _HOUR
    for year in range(first_year, last_year + 1):
        yield from sorted(
            [
                (_moment(found["start"], year) - standard, summer),
                (_moment(found["end"], year) - summer, standard),
            ]
        )


def _moment(rule: str, year: int) -> int:
    """Return the local second at which a POSIX rule such as ``M3.5.0/3`` applies in a year."""
    day_rule, _, time = rule.partition("/")
    at = _seconds(time) if time else 2 * _HOUR
    return (_day(day_rule, year) - _EPOCH).days * 24 * _HOUR + at


def _day(rule: str, year: int) -> date:
    if rule[0] == "M":
        month, week, weekday = map(int, rule[1:].split("."))
        first = date(year, month, 1)
        day = first + timedelta((weekday - first.isoweekday()) % 7 + 7 * (week - 1))
        return day if day.month == month else day - timedelta(7)
    if rule[0] == "J":  # 29 February is never counted
        day = date(year, 1, 1) + timedelta(int(rule[1:]) - 1)
        leap = date(year, 12, 31).timetuple().tm_yday == 366
        return day + timedelta(1) if leap and int(rule[1:]) > 59 else day
    return date(year, 1, 1) + timedelta(int(rule))


def _seconds(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    hours, minutes, seconds = [*map(int, text.lstrip("+-").split(":")), 0, 0][:3]
    return sign * (hours * _HOUR + minutes * 60 + seconds)
