"""The moments that an exclusion takes away from a rule, as one stretch.

They may lie anywhere between two instants. Both rules can be counted, and where one has more
moments than the other there is something left out; so the first and the last are found by halving.
Only the half in question is ever counted again, and a year costs little more than a day.
"""

from datetime import datetime

from duly.errors import RuleError
from duly.instants import from_us, to_us
from duly.policy.missed import Stretch
from duly.rules import Rule


def left_out(timing: Rule, kept: Rule, *, after: datetime, until: datetime) -> Stretch | None:
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
    return Stretch(_first(timing, kept, low, high), _last(timing, kept, low, high), count)


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
