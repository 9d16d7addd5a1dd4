"""Which of the due moments in a stretch of time get a fire of their own.

The stretch is from a cursor, exclusive, to now, inclusive. It may be a millisecond or a year: what
is not picked is counted, never walked, so a year of downtime costs as much as a minute.

A moment that is alone in its stretch is never "missed" because it is late: only ``skip`` looks at
its age.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from duly.errors import RuleError
from duly.model.policies import Missed
from duly.rules import Rule
from duly.rules.instants import from_us, to_us

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Moments that share one fate: how many, from which to which."""

    first: datetime
    last: datetime
    count: int | None  # None: too many to be counted


@dataclass(frozen=True, slots=True)
class Picked:
    moments: list[datetime]  # oldest first: each gets a fire of its own
    left: Stretch | None  # the older ones, which do not


def pick(
    missed: Missed, rule: Rule, *, after: datetime, now: datetime, settled: Collection[datetime]
) -> Picked:
    """Choose among the moments after ``after`` until ``now`` that are not settled yet."""
    latest = newest(rule, after, now, settled)
    if latest is None:
        return Picked([], None)
    match missed.policy:
        case "latest":
            return Picked([latest], stretch(rule, after, latest - MICROSECOND, settled))
        case "skip":
            if now - latest > missed.grace:
                return Picked([], stretch(rule, after, latest, settled))
            return Picked([latest], stretch(rule, after, latest - MICROSECOND, settled))
        case "all":
            return _pick_all(missed.at_most, rule, after, now, settled)
        case _:
            assert_never(missed.policy)


def newest(
    rule: Rule, after: datetime, until: datetime, settled: Collection[datetime]
) -> datetime | None:
    """The last moment after ``after`` until ``until`` that is not settled."""
    found = rule.at_or_before(until)
    while found is not None and found in settled:
        found = rule.at_or_before(found - MICROSECOND)
    return found if found is not None and found > after else None


def stretch(
    rule: Rule, after: datetime, until: datetime, settled: Collection[datetime] = ()
) -> Stretch | None:
    """All moments after ``after`` until ``until`` as one, or None if there are none."""
    last = newest(rule, after, until, settled)
    if last is None:
        return None
    first = rule.after(after)
    assert first is not None
    try:
        count = rule.count(after, last) - sum(after < moment <= last for moment in settled)
    except RuleError:
        return Stretch(first, last, None)
    return Stretch(first, last, count)


def _pick_all(
    at_most: int, rule: Rule, after: datetime, now: datetime, settled: Collection[datetime]
) -> Picked:
    moments: list[datetime] = []
    found = newest(rule, after, now, settled)
    while found is not None and len(moments) < at_most:
        moments.append(found)
        found = newest(rule, after, found - MICROSECOND, settled)
    moments.reverse()
    return Picked(moments, stretch(rule, after, moments[0] - MICROSECOND, settled))


def left_out(timing: Rule, kept: Rule, after: datetime, until: datetime) -> Stretch | None:
    """The moments that the rule has and an exclusion takes away, as one stretch.

    Found by counting both rules and bisecting, because the moments of an exclusion calendar may
    lie anywhere in the stretch.
    """
    try:
        total = timing.count(after, until)
        excluded = total - kept.count(after, until)
    except RuleError:
        return None  # a rule too dense to be counted: what it leaves out is not written down
    if not excluded:
        return None
    start = to_us(after)

    def passed(n: int) -> int:
        """How many of the first ``n`` moments are left out."""
        nth = timing.nth_after_us(start, n)
        assert nth is not None
        return n - kept.count(after, from_us(nth))

    def place(wanted: int) -> datetime:
        low, high = wanted, total
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if passed(middle) >= wanted else (middle + 1, high)
        nth = timing.nth_after_us(start, low)
        assert nth is not None
        return from_us(nth)

    return Stretch(place(1), place(excluded), excluded)
