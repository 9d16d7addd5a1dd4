"""Which of the due moments in a stretch of time get a fire of their own.

The stretch is from a cursor, exclusive, to now, inclusive. It may be a millisecond or a year: what
is not picked is counted, never walked, so a year of downtime costs as much as a minute.

A moment that is alone in its stretch is never "missed" because it is late: only ``skip`` looks at
its age.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from duly.errors import RuleError
from duly.instants import from_us, to_us
from duly.model.policies import Missed
from duly.rules import Rule

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class MomentRange:
    """Moments that share one fate: how many, from which to which."""

    first: datetime
    last: datetime
    count: int | None  # None: too many to be counted


@dataclass(frozen=True, slots=True)
class Picked:
    moments: list[datetime]  # oldest first: each gets a fire of its own
    left: MomentRange | None  # the older ones, which do not


def pick(
    missed: Missed, rule: Rule, *, after: datetime, now: datetime, until: datetime | None = None
) -> Picked:
    """Choose among the moments after ``after`` until ``until``, or until ``now``."""
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
    """The last moment after ``after`` until ``until``."""
    found = rule.at_or_before(until)
    return found if found is not None and found > after else None


def stretch(rule: Rule, after: datetime, until: datetime) -> MomentRange | None:
    """All moments after ``after`` until ``until`` as one, or None if there are none."""
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
    """What the rule has after ``after`` until ``until``, and what is kept of it has not."""
    low, high = to_us(after), to_us(until)
    if high <= low:
        return None
    try:
        count = _lost(timing, kept, low, high)
    except RuleError:
        return None  # a rule too dense to be counted: what it leaves out is not written down
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
