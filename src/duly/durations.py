"""Durations as people write them: ``90s``, ``5m``, ``1h30m``, ``2d``, ``10 minutes``.

``m`` is always minutes and ``d`` always 24 hours. A bare number is refused, because it could be
seconds or minutes.
"""

import re
from collections.abc import Sequence
from datetime import timedelta

from duly.errors import RuleError

MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SHORTEST = timedelta(milliseconds=1)  # the shortest interval of a rule
LONGEST = timedelta(days=100 * 366)

_UNITS = {
    "us": MICROSECOND,
    "ms": timedelta(milliseconds=1),
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
    "d": DAY,
    "w": timedelta(weeks=1),
}
_LONG_NAMES = {
    "sec": "s",
    "second": "s",
    "min": "m",
    "minute": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
    "millisecond": "ms",
    "microsecond": "us",
}
_PIECE = re.compile(r"(\d+(?:\.\d+)?) ?([a-z]+)", re.ASCII)
_DAYS = ((86_400, "d"), (3_600, "h"))
_HOURS = ((3_600, "h"), (60, "min"))
_MINUTES = ((60, "min"), (1, "s"))
_SHOWN = ("h", "m", "s", "ms", "us")


def parse_duration(text: str | timedelta) -> timedelta:
    """Return the length of time that a text such as ``1h30m`` names."""
    if isinstance(text, timedelta):
        return _checked(text, str(text))
    if not isinstance(text, str):
        raise RuleError(f'{text!r} is not a duration: write "{text}s" or "{text}m"')
    total, at, body = timedelta(), 0, text.strip()
    while at < len(body) and (found := _PIECE.match(body, at)):
        unit = _unit(found[2])
        if unit is None:
            break
        if len(found[1]) > 12:
            raise RuleError(f'"{found[1]}" has too many digits', text=text, position=at)
        if float(found[1]) * unit.total_seconds() > LONGEST.total_seconds():
            raise _too_long(text)
        total += float(found[1]) * unit if "." in found[1] else int(found[1]) * unit
        at = found.end()
        at += body.startswith(" ", at)
    if at < len(body) or not body:
        either = f': write "{body}s" or "{body}m"'
        hint = either if body.isdigit() else '; write it as "90s", "5m", "1h30m" or "2d"'
        raise RuleError(f'"{text}" is not a duration{hint}', text=text, position=at)
    return _checked(total, text)


def is_bare_number(asked: object) -> bool:
    """Return whether a number without a unit was given for a duration."""
    return isinstance(asked, int | float) and not isinstance(asked, bool)


def show_duration(length: timedelta) -> str:
    """Return ``1h30m``: text that parses back to the same length; hours are the largest unit."""
    return "".join(f"{count}{unit}" for count, unit in _pieces(length)) or "0s"


def say_duration(length: timedelta) -> str:
    """``1 hour and 30 minutes``."""
    nouns = {"h": "hour", "m": "minute", "s": "second", "ms": "millisecond", "us": "microsecond"}
    words = [f"{count} {nouns[unit]}{'s' * (count > 1)}" for count, unit in _pieces(length)]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _pieces(length: timedelta) -> list[tuple[int, str]]:
    pieces = []
    for unit in _SHOWN:
        count, length = divmod(length, _UNITS[unit])
        if count:
            pieces.append((count, unit))
    return pieces


def _unit(word: str) -> timedelta | None:
    short = word if word in _UNITS else _LONG_NAMES.get(word.removesuffix("s"), "")
    return _UNITS.get(short)


def _checked(length: timedelta, shown: str) -> timedelta:
    if length > LONGEST:
        raise _too_long(shown)
    return length


def _too_long(shown: str) -> RuleError:
    return RuleError(
        f'"{shown}" is too long: the longest duration is a century', text=shown, position=0
    )


def usual_runtime(runs: Sequence[timedelta]) -> timedelta | None:
    """Return the median; from ten seconds on it is rounded to seconds."""
    if not runs:
        return None
    middle = sorted(runs)[len(runs) // 2]
    whole = timedelta(seconds=round(middle.total_seconds()))
    return whole if whole >= timedelta(seconds=10) else middle


def about(length: timedelta) -> str:
    """``12 ms``, ``3.2 s``, ``40 min``, ``27 h 58 min``, ``3 d 4 h``."""
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{round(seconds * 1_000)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    units = _DAYS if whole >= 48 * 3_600 else _HOURS if whole >= 3_600 else _MINUTES
    (size, unit), (smaller, small_unit) = units
    count, rest = divmod(whole, size)
    left = rest // smaller
    return f"{count} {unit} {left} {small_unit}" if left else f"{count} {unit}"
