"""Due times between a cursor (exclusive) and now (inclusive): which are fired, which left out.

``pick`` applies the ``missed`` policy. Moments that are not picked are counted, never listed, so a
year of downtime costs as much as a minute. A single due moment is never "missed" because it is
late: only ``skip`` looks at its age.

``left_out`` finds the moments that an exclusion removes. They may lie anywhere in the range. The
rule with and without the exclusion can be counted, so the first and the last removed moment are
found by bisection.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from duly.durations import MICROSECOND
from duly.errors import RuleError
from duly.instants import from_us, to_us
from duly.model.policies import Missed
from duly.rules import Rule


@dataclass(frozen=True, slots=True)
class MomentRange:
    """Moments with the same outcome: the first, the last and their number."""

    first: datetime
    last: datetime
    count: int | None  # None: too many to be counted


@dataclass(frozen=True, slots=True)
class Picked:
    moments: list[datetime]  # oldest first; each gets a fire of its own
    left: MomentRange | None  # older moments, which get no fire of their own


def pick(
    missed: Missed, rule: Rule, *, after: datetime, now: datetime, until: datetime | None = None
) -> Picked:
    """Choose which moments after ``after`` and up to ``until`` (default: now) are fired."""
    until = now if until is None else until
    latest = newest(rule, after, until)
    if latest is None:
        return Picked([], None)
    match missed.policy:
        case "latest":
            return Picked([latest], stretch(rule, after, latest - MICROSECOND))
        case "skip":
            if now - latest > missed.grace:
                return Picked([], stretch(rule, after, latest))
            return Picked([latest], stretch(rule, after, latest - MICROSECOND))
        case "all":
            return _pick_all(missed.at_most, rule, after=after, until=until)
        case _:
            assert_never(missed.policy)


def newest(rule: Rule, after: datetime, until: datetime) -> datetime | None:
    """Return the last moment after ``after`` and up to ``until``."""
    found = rule.at_or_before(until)
    return found if found is not None and found > after else None


def stretch(rule: Rule, after: datetime, until: datetime) -> MomentRange | None:
    """Return all moments after ``after`` and up to ``until`` as one range; None without any."""
    first, last = rule.after(after), newest(rule, after, until)
    if first is None or last is None:
        return None
    try:
        return MomentRange(first, last, rule.count(after, last))
    except RuleError:
        return MomentRange(first, last, None)


def _pick_all(at_most: int, rule: Rule, *, after: datetime, until: datetime) -> Picked:
    moments: list[datetime] = []
    found = newest(rule, after, until)
    while found is not None and len(moments) < at_most:
        moments.append(found)
        found = newest(rule, after, found - MICROSECOND)
    moments.reverse()
    return Picked(moments, stretch(rule, after, moments[0] - MICROSECOND))


def left_out(timing: Rule, kept: Rule, *, after: datetime, until: datetime) -> MomentRange | None:
    """Return the moments of ``timing`` that ``kept`` lacks, after ``after`` and up to ``until``."""
    low, high = to_us(after), to_us(until)
    if high <= low:
        return None
    try:
        count = _lost(timing, kept, low, high)
    except RuleError:
        return None  # the rule is too dense to count: its excluded moments are not recorded
    if not count:
        return None
    return MomentRange(_first(timing, kept, low, high), _last(timing, kept, low, high), count)


def _first(timing: Rule, kept: Rule, low: int, high: int) -> datetime:
    while kept.count_us(low, high):
        middle = (low + high) // 2
        low, high = (low, middle) if _lost(timing, kept, low, middle) else (middle, high)
    return from_us(timing.after_us(low) or high)


def _last(timing: Rule, kept: Rule, low: int, high: int) -> datetime:
    while kept.count_us(low, high):
        middle = (low + high) // 2
        low, high = (middle, high) if _lost(timing, kept, middle, high) else (low, middle)
    return from_us(timing.at_or_before_us(high) or high)


def _lost(timing: Rule, kept: Rule, low: int, high: int) -> int:
    return timing.count_us(low, high) - kept.count_us(low, high)
