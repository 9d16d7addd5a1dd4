"""Notes about the effects of coming clock changes on a rule.

    2027-03-28 02:30 does not exist in Europe/Berlin: will run at 03:00.
    2026-10-25 02:30 happens twice in Europe/Berlin: will run once, the first time.

Only changes with an effect are named: a rule that repeats every hour is not affected.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from duly.instants import from_us, to_us
from duly.rules.budget import Budget
from duly.rules.explain import listed
from duly.rules.interval import Spaced
from duly.rules.modifiers import Bounded
from duly.rules.recurrence.recurrence import Recurrence
from duly.rules.rule import Minus, Rule, Union
from duly.rules.wall_times import HOUR, SECOND
from duly.rules.zone import LONGEST_MADE_UP, zone_named
from duly.rules.zoned import Zoned

A_YEAR_AND_A_BIT = timedelta(days=400)
MOST_TIMES = 3


def clock_change_notes(
    rule: Rule | Spaced, after: datetime, *, within: timedelta = A_YEAR_AND_A_BIT, limit: int = 2
) -> list[str]:
    """Return a sentence for each of the next clock changes that affect the rule."""
    if isinstance(rule, Spaced):
        return []  # elapsed time does not depend on the wall clock
    start = to_us(after)
    until = start + within // timedelta(microseconds=1)
    with Budget():
        return [sentence for _, sentence in sorted(set(_notes(rule, start, until)))[:limit]]


def _notes(rule: Rule, after: int, until: int) -> Iterator[tuple[int, str]]:
    """Yield the clock changes between two instants that affect the rule, with a sentence each."""
    match rule:
        case Zoned():
            yield from _clock_notes(rule, after, until)
        case Union(parts):
            for part in parts:
                yield from _notes(part, after, until)
        case Minus(inner, exclusion):
            for instant, sentence in _notes(inner, after, until):
                if exclusion.blocked_until_us(instant) is None:
                    yield instant, sentence
        case Bounded(inner, first, last):
            low = after if first is None else max(after, first - 1)
            yield from _notes(inner, low, until if last is None else min(until, last))
        case Recurrence():
            yield from _notes(rule.inner, after, until)
        case _:
            pass  # elapsed time, or delayed moments


def _clock_notes(rule: Zoned, after: int, until: int) -> Iterator[tuple[int, str]]:
    zone = zone_named(rule.zone)
    for k in range(zone.segment(after) + 1, zone.segment(until) + 1):
        if gap := zone.gap_before(k):
            said = _gap_note(rule, gap)
        elif fold := zone.fold_before(k):
            said = _fold_note(rule, fold)
        else:
            said = None
        if said:
            yield zone.starts[k], said


def _gap_note(rule: Zoned, gap: tuple[int, int]) -> str | None:
    low, high = gap
    lost = _in_between(rule, low, high)
    if not lost:
        return None
    missing = f"{_times(rule, low, lost)} {'does' if lost == 1 else 'do'} not exist in {rule.zone}"
    if high - low > LONGEST_MADE_UP or rule.dst.gap == "skip":
        return None if rule.wall.recurs_hourly else f"{missing}: will not run."
    if rule.dst.gap == "end":
        return f"{missing}: will run{' once,' * (lost > 1)} at {_clock(high)}."
    return f"{missing}: will run {int((high - low) / HOUR * 60)} minutes later."


def _fold_note(rule: Zoned, fold: tuple[int, int]) -> str | None:
    low, high = fold
    repeated = _in_between(rule, low, high)
    if not repeated or (rule.dst.fold == "both" and rule.wall.recurs_hourly):
        return None
    happens = f"{_times(rule, low, repeated)} happen{'s' * (repeated == 1)} twice in {rule.zone}"
    if rule.dst.fold == "both":
        return f"{happens}: will run both times."
    which = "first" if rule.dst.fold == "first" else "second"
    return f"{happens}: will run once, the {which} time."


def _in_between(rule: Zoned, low: int, high: int) -> int:
    return rule.wall.count_before(high) - rule.wall.count_before(low)


def _times(rule: Zoned, low: int, count: int) -> str:
    """Return the first wall times from ``low`` on, with their date."""
    shown: list[str] = []
    wall = rule.wall.next(low)
    while wall is not None and len(shown) < min(count, MOST_TIMES):
        shown.append(_clock(wall) if shown else f"{from_us(wall):%Y-%m-%d} {_clock(wall)}")
        wall = rule.wall.next(wall + 1)
    if count > MOST_TIMES:
        shown.append(f"{count - MOST_TIMES} more times")
    return listed(shown)


def _clock(wall: int) -> str:
    moment = from_us(wall)
    return f"{moment:%H:%M:%S}" if wall % (60 * SECOND) else f"{moment:%H:%M}"
