"""Every clock change of this generation, in zones of every kind, under every choice for it.

Here the meaning is put the other way round than in ``bruteforce``. Time runs forward minute by
minute, and each minute of real time answers for the wall times that a rule may ask of it: the one
the clock shows, unless it counts in another pass only; and, where the clock has just jumped, those
it jumped over. A rule has a moment in a minute exactly if it has one of these wall times.

This table is made once for a change and a choice, and all the rules are held against it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache
from itertools import product
from operator import sub

import pytest

from duly.rules import Rule, calendar, cron
from tests.rules.bruteforce import (
    DST_CHOICES,
    EVERY,
    HOUR,
    MINUTE,
    CalendarExpression,
    CronLine,
    Item,
    Items,
    LastDay,
    Nearest,
    Nth,
    Number,
    Open,
    Span,
    Star,
    Term,
    Value,
    changes_of,
    clock_of,
    knobs,
    minutes_of_day,
)

Spec = CronLine | CalendarExpression
Table = dict[datetime, datetime]  # wall time: the instant at which it counts

ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Caracas",
    "America/Havana",
    "America/New_York",
    "America/Santiago",
    "Antarctica/Troll",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
)

USUAL_ZONES = {"Europe/Berlin", "Pacific/Apia"}
elsewhere = pytest.mark.thorough("repeats some hundred rules around the changes of another zone")

FIRST_YEAR, LAST_YEAR = 2000, 2037
AROUND = 26 * HOUR

# -- some hundred rules ----------------------------------------------------------------------------

CRON_TIMES: list[tuple[tuple[Number, ...], tuple[Number, ...]]] = [
    ((Value(0),), (Value(0),)),
    ((Value(30),), (Value(0),)),
    ((Value(0),), (Value(1),)),
    ((Value(45),), (Value(1),)),
    ((Value(0),), (Value(2),)),
    ((Value(15),), (Value(2),)),
    ((Value(30), Value(50)), (Value(2),)),
    ((Value(0),), (Value(3),)),
    ((Value(30),), (Value(23),)),
    ((Value(0), Value(30)), (Span(0, 3),)),
    ((Star(30),), (Value(2),)),
    ((Star(7),), (Value(1), Value(23))),
    ((Value(30),), (Star(),)),
    ((Value(5),), (Star(5),)),
    ((Open(3, 20),), (Span(22, 3),)),
    ((Span(50, 10, 4),), (Value(0), Value(2), Value(12))),
]
CRON_DAYS: list[tuple[tuple[Term, ...], tuple[Number, ...], tuple[Term, ...]]] = [
    ((Star(),), (Star(),), (Star(),)),
    ((Star(),), (Star(),), (Value(0),)),
    ((Star(),), (Star(),), (Span(5, 1),)),
    ((Star(),), (Star(),), (Nth(0, None), Nth(0, 1), Nth(5, 2))),
    ((Star(2),), (Star(),), (Value(6), Value(7))),
    ((Span(24, 7),), (Star(),), (Star(),)),
    ((LastDay(), LastDay(3)), (Star(),), (Value(0),)),
    ((Nearest(None), Nearest(8), Nearest(28)), (Star(),), (Star(),)),
    ((Value(13), Value(30)), (Span(3, 4), Span(9, 11)), (Nth(5, None), Value(6))),
]
CALENDAR_TIMES: list[tuple[Items, Items]] = [
    ((Item(0),), (Item(0),)),
    ((Item(1),), (Item(30),)),
    ((Item(2),), (Item(10), Item(40))),
    ((Item(2),), (Item(0, None, 20),)),
    ((Item(0, 3),), (Item(15, 45, 15),)),
    ((Item(0, None, 3),), (Item(50),)),
    ((Item(23),), (Item(59),)),
    (EVERY, (Item(59),)),
    (EVERY, (Item(7, None, 25),)),
    ((Item(3), Item(12)), (Item(0),)),
]
CALENDAR_DAYS: list[tuple[tuple[tuple[int, int], ...], Items, Items, bool]] = [
    ((), EVERY, EVERY, False),
    (((6, 6),), EVERY, EVERY, False),
    (((4, 6), (0, 0)), EVERY, EVERY, False),
    ((), EVERY, (Item(7, None, 1),), True),
    (((6, 6),), EVERY, (Item(1, 7),), True),
    (((5, 6),), EVERY, (Item(1, 14, 2), Item(25, None, 3)), False),
    ((), (Item(3, None, 3), Item(10, 11)), EVERY, False),
]


@dataclass(frozen=True, eq=False)
class Written:
    """A rule as fields, with its minutes of the day. Its identity is enough to tell it apart."""

    spec: Spec
    minutes: list[timedelta]
    holds_on: Callable[[date], bool]  # remembers, for all rules that have these days


def written() -> Iterator[tuple[Spec, Callable[[date], bool]]]:
    lines = [CronLine((), (), *days) for days in CRON_DAYS]
    lines_and_days = [(line, cache(line.holds_on)) for line in lines]
    for (minute, hour), (line, holds_on) in product(CRON_TIMES, lines_and_days):
        yield replace(line, minute=minute, hour=hour), holds_on
    expressions = [
        CalendarExpression(weekdays, EVERY, months, days, from_end)
        for weekdays, months, days, from_end in CALENDAR_DAYS
    ]
    expressions_and_days = [(each, cache(each.holds_on)) for each in expressions]
    for (hours, minutes), (each, holds_on) in product(CALENDAR_TIMES, expressions_and_days):
        yield replace(each, hour=hours, minute=minutes), holds_on


RULES = [Written(spec, minutes_of_day(spec), holds_on) for spec, holds_on in written()]


# -- time runs forward -----------------------------------------------------------------------------


class Change:
    """A change of the clock: each minute of the days around it, and what the wall shows then."""

    def __init__(self, zone: str, moment: datetime) -> None:
        self.start, self.end = moment - AROUND, moment + AROUND
        reach = (AROUND + 4 * HOUR) // MINUTE  # so that both passes of a repeated time are seen
        self.instants = [moment + minute for minute in minutes_around(reach)]
        aware = [each.astimezone(clock_of(zone)) for each in self.instants]
        self.walls = [datetime.combine(each, each.time()) for each in aware]
        self.jumps = list(self.jumped())
        self.days = sorted(
            {wall.date() for wall in self.walls}
            | {wall.date() for jump in self.jumps for wall in jump[1]}
        )
        # When the clock shows a wall time, in the pass that counts: what is put in last stays.
        last = dict(zip(self.walls, self.instants, strict=True))
        first = dict(zip(reversed(self.walls), reversed(self.instants), strict=True))
        self.shown = {"first": [first], "last": [last], "both": [first, last]}
        self.made_up = {gap: self.made_up_at(gap) for gap in ("skip", "end", "shift")}

    def jumped(self) -> Iterator[tuple[int, list[datetime]]]:
        """Each minute before which the clock jumped forward, and the wall times jumped over."""
        for index, step in enumerate(map(sub, self.walls[1:], self.walls), 1):
            if step > MINUTE:
                before = self.walls[index - 1]
                yield index, [before + n * MINUTE for n in range(1, step // MINUTE)]

    def made_up_at(self, gap: str) -> Table:
        """When a wall time is made up for that the clock jumped over."""
        return {
            wall: self.instants[index + (number if gap == "shift" else 0)]
            for index, lost in self.jumps
            if gap != "skip" and len(lost) <= 180
            for number, wall in enumerate(lost)
        }

    def moments(self, rule: Written, dst: str) -> list[datetime]:
        gap, fold = knobs(dst, fixed=rule.spec.fixed)
        walls = [
            midnight(day) + minute
            for day in self.days
            if rule.holds_on(day)
            for minute in rule.minutes
        ]
        tables = [*self.shown[fold], self.made_up[gap]]
        found = {table[wall] for table in tables for wall in walls if wall in table}
        return sorted(instant for instant in found if self.start < instant <= self.end)


@cache
def minutes_around(reach: int) -> list[timedelta]:
    return [n * MINUTE for n in range(-reach, reach + 1)]


@cache
def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - on a wall


@cache
def read(rule: Written, zone: str, dst: str) -> Rule:
    reader = cron if isinstance(rule.spec, CronLine) else calendar
    return reader(rule.spec.text, zone=zone, dst=dst)


# -- the world -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "zone",
    [pytest.param(zone, marks=[] if zone in USUAL_ZONES else [elsewhere]) for zone in ZONES],
)
def test_every_rule_keeps_its_word_around_every_change_of(zone: str) -> None:
    wrong = []
    for number, moment in enumerate(changes_of(zone, FIRST_YEAR, LAST_YEAR)):
        change = Change(zone, moment)
        for other, each in enumerate(RULES):
            dst = DST_CHOICES[(number + other) % len(DST_CHOICES)]
            rule, expected = read(each, zone, dst), change.moments(each, dst)
            found = list(rule.between(change.start, change.end, limit=10_000))
            count = rule.count(change.start, change.end)
            if (found, count) != (expected, len(expected)):
                wrong.append((moment, str(rule), found, count, expected))
    assert wrong == []
