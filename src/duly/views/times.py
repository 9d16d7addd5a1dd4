"""Times that people type, in a command, a form or a request: a moment, or a length of time.

A moment without an offset is on the clock of a zone. ``what`` names the option or field in errors.
"""

from datetime import UTC, datetime, timedelta

from duly.durations import parse_duration
from duly.errors import InvalidValue, RuleError, ZoneMissing
from duly.model.policies import check_moment
from duly.rules import at

_BEGINNING = datetime.min.replace(tzinfo=UTC)


def read_moment(
    text: str, *, what: str, zone: str | None = None, or_length: bool = False
) -> datetime:
    """Parse an ISO time; ``or_length``: the error mentions that a duration is possible, too."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        hint = _how_to_write(text.strip(), or_length=or_length)
        raise InvalidValue(f'{what}: "{text[:100]}" is not a time; {hint}') from None
    moment = found if found.tzinfo is not None else _on_the_clock(found, what, zone)
    check_moment(what, moment)
    return moment


def read_when(text: str, *, what: str, zone: str | None = None) -> datetime | timedelta:
    """Parse a duration, or a time."""
    length = read_length(text)
    return read_moment(text, what=what, zone=zone, or_length=True) if length is None else length


def read_past(text: str, *, what: str, now: datetime, zone: str | None = None) -> datetime:
    """Parse a time, or a duration before ``now``; the word "now" is ``now``."""
    if text.strip() == "now":
        return now
    found = read_when(text, what=what, zone=zone)
    if isinstance(found, datetime):
        return found
    try:
        moment = now - found
    except OverflowError:
        raise InvalidValue(f"{what}={text}: that is longer ago than anything") from None
    check_moment(what, moment)
    return moment


def read_length(text: str) -> timedelta | None:
    """Parse a duration; None if it is not one."""
    try:
        return parse_duration(text)
    except RuleError:
        return None


def _on_the_clock(naive: datetime, what: str, zone: str | None) -> datetime:
    shown = naive.isoformat(timespec="auto" if naive.second else "minutes")
    try:
        found = at(naive.isoformat(), zone=zone).after(_BEGINNING)
    except ZoneMissing:
        hint = f'"{shown}" needs an offset, as in {shown}Z, or a zone'
        raise InvalidValue(f"{what}: {hint}") from None
    except RuleError as error:
        raise InvalidValue(f"{what}: {error}") from None
    if found is None:
        raise InvalidValue(f'{what}: "{shown}" does not exist in {zone}')
    return found


def _how_to_write(text: str, *, or_length: bool) -> str:
    moment = "2026-11-16T09:00, optionally with Z or +01:00"
    if or_length and text.isascii() and text.isdigit():
        return f"give a unit, {text}s, {text}m or {text}h, or write it as {moment}"
    return f"write it as {moment}{'; or a duration, as 5m or 2h' if or_length else ''}"
