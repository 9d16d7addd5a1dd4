"""What must hold for every rule, whatever it says: it is the set of moments that a slow walk finds.

``bruteforce`` walks; here are the dice. They fall where rules go wrong: on clock changes, on the
first and last days there are, on months' ends, on fields that wrap round.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from typing import TypeVar

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from duly.errors import RuleError
from duly.rules import Rule, calendar, cron, parse
from tests.infrastructure.tiers import examples
from tests.rules.bruteforce import (
    DATES,
    DAY,
    DST_CHOICES,
    EVERY,
    FIRST_DAY,
    HOURS,
    LAST_DAY,
    MICROSECOND,
    MINUTE,
    MINUTES,
    MONTHS,
    SECONDS,
    WEEKDAYS,
    CalendarExpression,
    Column,
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
    days_of_month,
    moments,
)

Spec = CronLine | CalendarExpression
T = TypeVar("T")

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour
    "Pacific/Chatham",  # at a quarter to three
    "Africa/Cairo",  # at midnight, and with years of rest
    "America/Havana",  # at midnight, and back to the day before
    "Asia/Kathmandu",  # a quarter of an hour, once
    "Pacific/Apia",  # a whole day lost
    "Antarctica/Troll",  # two hours
    "America/Caracas",  # half an hour, without summer time
    "Africa/Casablanca",  # around Ramadan, four times a year
    "Europe/Dublin",  # winter time is the exception
    "America/Santiago",  # at midnight, in the south
    "Asia/Tehran",  # on days of another calendar
    "Africa/Monrovia",  # 44 minutes and 30 seconds, in 1972
    "UTC",
)

FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MOMENT = datetime(2200, 1, 1, tzinfo=UTC)
NO_LIMIT = 1_000_000  # more than any stretch here holds


def tried(number: int) -> settings:
    return settings(derandomize=True, max_examples=examples(number))


# -- dice: cron lines ------------------------------------------------------------------------------


def numbers(column: Column) -> st.SearchStrategy[Number]:
    value = st.integers(column.low, column.high)
    step = st.integers(1, column.high + 2)
    choices: list[st.SearchStrategy[Number]] = [
        st.builds(Star, st.none() | step),
        st.builds(Value, value),
        st.builds(Open, value, step),
        st.builds(Span, value, value, st.none() | step),
    ]
    if column.names:
        named = st.integers(column.low, column.low + len(column.names) - 1)
        choices.append(st.builds(Value, named, named=st.just(True)))
        choices.append(st.builds(Span, named, named, st.none() | step, named=st.just(True)))
    return st.one_of(choices)


def few(term: Number) -> bool:
    return len(term.values(SECONDS)) <= 6


def listed(term: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(term, min_size=1, max_size=3).map(tuple)


def star_or(terms: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[Star | T, ...]]:
    return st.just((Star(),)) | listed(terms)


dates: st.SearchStrategy[Term] = st.one_of(
    numbers(DATES),
    st.builds(LastDay, st.integers(0, 30)),
    st.builds(Nearest, st.none() | st.integers(1, 31)),
)
weekdays: st.SearchStrategy[Term] = st.one_of(
    numbers(WEEKDAYS),
    st.builds(Nth, st.integers(0, 7), st.none() | st.integers(1, 5), st.booleans()),
)
small_hours = st.builds(Value, st.sampled_from([0, 1, 2, 3, 23]))

cron_lines = st.builds(
    CronLine,
    minute=listed(numbers(MINUTES)),
    hour=star_or(small_hours) | listed(numbers(HOURS)),
    day=star_or(dates),
    month=star_or(numbers(MONTHS)),
    weekday=star_or(weekdays),
    second=st.none() | listed(numbers(SECONDS).filter(few)),
)
cron_lines_once_a_day = st.builds(
    CronLine,
    minute=st.just((Value(30),)),
    hour=st.tuples(small_hours),
    day=star_or(dates),
    month=star_or(numbers(MONTHS)),
    weekday=star_or(weekdays),
)


# -- dice: calendar expressions --------------------------------------------------------------------


@st.composite
def items(draw: st.DrawFn, low: int, high: int) -> Item:
    """An item of a list. Ranges lead forwards, and an open step must still be inside the field."""
    start = draw(st.integers(low, high))
    stop = draw(st.integers(start, high)) if draw(st.booleans()) else None
    room = high - start if stop is None else high - low
    stepped = room and draw(st.booleans())
    return Item(start, stop, draw(st.integers(1, room)) if stepped else None)


@st.composite
def items_from_end(draw: st.DrawFn) -> Item:
    """``~7/2`` leads to the month's end, so the step is smaller than the start."""
    item = draw(items(1, 28))
    if item.stop is not None or item.start == 1:
        return Item(item.start, item.stop)
    step = draw(st.integers(1, item.start - 1)) if draw(st.booleans()) else None
    return Item(item.start, None, step)


@st.composite
def second_items(draw: st.DrawFn) -> Item:
    """In microseconds. A range without a step covers at least one second."""
    tick = draw(st.sampled_from([1_000_000, 500_000, 333_333]))
    item = draw(items(0, 59_999_999 // tick))
    start, stop, step = (n if n is None else n * tick for n in (item.start, item.stop, item.step))
    assert start is not None
    if stop is not None and step is None and stop - start < 1_000_000:
        return Item(start)
    return Item(start, stop, step)


def every_or(low: int, high: int) -> st.SearchStrategy[Items]:
    return st.just(EVERY) | listed(items(low, high))


def unlike_systemd(seconds: Items) -> bool:
    """To systemd, and so to us, seconds with ``0/1`` in a list are all the whole seconds."""
    return len(seconds) > 1 and Item(0, None, 1_000_000) in seconds


@st.composite
def weekday_ranges(draw: st.DrawFn) -> tuple[int, int]:
    first = draw(st.integers(0, 6))
    return first, draw(st.integers(first, 6))


hour_items = listed(st.builds(Item, st.sampled_from([0, 1, 2, 3, 23])))
plain_minute = st.just((Item(30),))
on_the_minute = st.just((Item(0),))


def expressions(
    hour: st.SearchStrategy[Items],
    minute: st.SearchStrategy[Items],
    second: st.SearchStrategy[Items],
) -> st.SearchStrategy[CalendarExpression]:
    from_the_front = st.tuples(st.just(value=False), every_or(1, 31))
    from_the_end = st.tuples(st.just(value=True), listed(items_from_end()))

    def build(
        day: tuple[bool, Items],
        ranges: list[tuple[int, int]],
        years_and_months: tuple[Items, Items],
        times: tuple[Items, Items, Items],
    ) -> CalendarExpression:
        from_end, days = day
        return CalendarExpression(tuple(ranges), *years_and_months, days, from_end, *times)

    return st.builds(
        build,
        from_the_front | from_the_end,
        st.lists(weekday_ranges(), max_size=2),
        st.tuples(st.just(EVERY) | every_or(1970, 2199), every_or(1, 12)),
        st.tuples(hour, minute, second),
    )


calendar_expressions = expressions(
    hour_items | every_or(0, 23),
    every_or(0, 59),
    on_the_minute | st.just(EVERY) | listed(second_items()).filter(lambda s: not unlike_systemd(s)),
)
calendar_expressions_once_a_day = expressions(
    hour_items.map(lambda hours: hours[:1]), plain_minute, on_the_minute
)

# -- dice: places ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A zone, a choice for its clock changes, and a moment."""

    zone: str
    dst: str
    moment: datetime


@st.composite
def places(draw: st.DrawFn) -> Place:
    """Just where the clock changes, within a day of it, or anywhere."""
    zone = draw(zones)
    moment = draw(landmarks(zone)) + draw(near) * MICROSECOND
    return Place(zone, draw(dst_choices), draw(anywhere) if draw(st.booleans()) else moment)


@cache
def landmarks(zone: str) -> st.SearchStrategy[datetime]:
    return st.sampled_from([*changes_of(zone, 1970, 2199), FIRST_MOMENT, LAST_MOMENT])


zones = st.sampled_from(ZONES)
dst_choices = st.sampled_from(DST_CHOICES)
near = st.sampled_from([0, 0, -1, 1, -1_000_000, 1_000_000]) | st.integers(-(10**11), 10**11)
anywhere = st.integers(0, (LAST_MOMENT - FIRST_MOMENT) // MICROSECOND).map(
    lambda since: FIRST_MOMENT + since * MICROSECOND
)


def places_like(place: Place) -> st.SearchStrategy[Place]:
    """The same moment, on the same clock or on another, with any choice for its changes."""
    return st.builds(Place, st.just(place.zone) | zones, dst_choices, st.just(place.moment))


specs: st.SearchStrategy[Spec] = st.one_of(cron_lines, calendar_expressions)
coarse_specs: st.SearchStrategy[Spec] = st.one_of(
    cron_lines_once_a_day, calendar_expressions_once_a_day
)


def read(spec: Spec, place: Place) -> Rule:
    """The product's reading.

    It may refuse what no day of the calendar is like, and to shift fractions of a second.
    """
    reader = cron if isinstance(spec, CronLine) else calendar
    try:
        return reader(spec.text, zone=place.zone, dst=place.dst)
    except RuleError:
        if not (place.dst.startswith("shift") and any(s.microseconds for s in spec.seconds())):
            assert not any(map(spec.holds_on, sample_days(spec))), f"{spec.text} does occur"
        reject()


def sample_days(spec: Spec) -> Iterator[date]:
    """All days; without a year, those of 28 years, after which weekdays and leap days repeat."""
    day, end = (FIRST_DAY, LAST_DAY)
    if isinstance(spec, CronLine) or not spec.year:
        end = date(1998, 1, 1)
    while day <= end:
        yield day
        day += DAY


def stretch(spec: Spec, moment: datetime) -> tuple[datetime, datetime]:
    """Three days around a moment, or less if the rule is fine: at most some thousand moments."""
    seconds = len(spec.seconds())
    half = 36 * 60 * MINUTE if seconds == 1 else max(1000 // seconds, 10) * MINUTE
    return moment - half, moment + half


def walk(rule: Rule, start: datetime, end: datetime) -> list[datetime]:
    return list(rule.between(start, end, limit=NO_LIMIT))


def walk_back(rule: Rule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    moment = rule.at_or_before(end)
    while moment is not None and moment > start:
        found.append(moment)
        moment = rule.at_or_before(moment - MICROSECOND)
    return found[::-1]


@st.composite
def anniversaries(draw: st.DrawFn) -> tuple[CronLine, Place]:
    """Once a year, within two days of where the clock changed or will: seen from far away."""
    zone = draw(st.sampled_from([zone for zone in ZONES if zone != "UTC"]))
    change = draw(st.sampled_from(changes_of(zone, 1970, 2199)))
    day = change.astimezone(clock_of(zone)) + draw(st.integers(-2, 2)) * DAY
    hour = draw(small_hours | st.builds(Value, st.integers(0, 23)))
    line = CronLine((Value(30),), (hour,), (Value(day.day),), (Value(day.month),))
    afar = change + draw(st.integers(-500, 500)) * DAY
    return line, Place(zone, draw(st.sampled_from(DST_CHOICES)), afar)


def one_year_of_each_kind() -> list[int]:
    """Leap or not, and beginning on each weekday."""
    kinds = {
        (len(days_of_month(date(year, 2, 1))), date(year, 1, 1).weekday()): year
        for year in range(1997, 2025)
    }
    return sorted(kinds.values())


midnight = (Value(0),)
NAMED_DAYS: dict[str, list[Spec]] = {
    "date": [CronLine(midnight, midnight, (Value(day),)) for day in range(1, 32)],
    "distance from the last": [
        CronLine(midnight, midnight, (LastDay(before),)) for before in range(31)
    ],
    "nearness to a date": [
        CronLine(midnight, midnight, (Nearest(near),)) for near in [None, *range(1, 32)]
    ],
    "weekday and place": [
        CronLine(midnight, midnight, weekday=(Nth(weekday, n),))
        for weekday in range(8)
        for n in [None, 1, 2, 3, 4, 5]
    ],
    "count from the end": [
        CalendarExpression(day=(item,), from_end=True)
        for item in (
            *(Item(n) for n in range(1, 29)),
            *(Item(n, None, step) for n in range(2, 29, 5) for step in range(1, n, 3)),
        )
    ],
}

# -- the world -------------------------------------------------------------------------------------


@tried(500)
@given(cron_lines, places())
def test_a_cron_line_has_the_moments_that_a_walk_along_the_wall_finds(
    line: CronLine, place: Place
) -> None:
    start, end = stretch(line, place.moment)
    rule = read(line, place)
    assert walk(rule, start, end) == moments(line, place.zone, place.dst, start=start, end=end)


@tried(500)
@given(calendar_expressions, places())
def test_a_calendar_has_the_moments_that_a_walk_along_the_wall_finds(
    expression: CalendarExpression, place: Place
) -> None:
    start, end = stretch(expression, place.moment)
    rule = read(expression, place)
    assert walk(rule, start, end) == moments(
        expression, place.zone, place.dst, start=start, end=end
    )


@tried(500)
@given(coarse_specs, places())
def test_the_days_of_a_year_are_those_that_a_walk_along_the_wall_finds(
    spec: Spec, place: Place
) -> None:
    start, end = place.moment, place.moment + 400 * DAY
    rule = read(spec, place)
    assert walk(rule, start, end) == moments(spec, place.zone, place.dst, start=start, end=end)


@tried(400)
@given(anniversaries())
def test_a_rule_for_one_day_a_year_is_found_from_afar(where: tuple[CronLine, Place]) -> None:
    line, place = where
    rule, start, end = read(line, place), place.moment - 600 * DAY, place.moment + 600 * DAY
    expected = moments(line, place.zone, place.dst, start=start, end=end)
    assert walk(rule, start, end) == walk_back(rule, start, end) == expected


@pytest.mark.parametrize("way", NAMED_DAYS)
def test_every_kind_of_year_has_the_days_named_by_their(way: str) -> None:
    wrong = []
    for spec in NAMED_DAYS[way]:
        rule = read(spec, Place("UTC", "cron", FIRST_MOMENT))
        for year in one_year_of_each_kind():
            new_year = datetime(year, 1, 1, tzinfo=UTC)
            days = [new_year + n * DAY for n in range(365 + (year % 4 == 0))]
            found = walk(rule, new_year - MICROSECOND, days[-1])
            if found != [day for day in days if spec.holds_on(day.date())]:
                wrong.append((spec.text, year, found))
    assert wrong == []


@tried(500)
@given(specs | coarse_specs, places())
def test_nothing_lies_between_the_moments_before_and_after(spec: Spec, place: Place) -> None:
    rule, moment = read(spec, place), place.moment
    earlier, later = rule.at_or_before(moment), rule.after(moment)
    assert (earlier, later) != (None, None)
    if earlier is not None:
        assert earlier <= moment
        assert rule.at_or_before(earlier) == rule.after(earlier - MICROSECOND) == earlier
        assert rule.after(earlier) == later
        assert rule.count(earlier, moment) == 0
    if later is not None:
        assert later > moment
        assert rule.at_or_before(later) == rule.after(later - MICROSECOND) == later
        assert rule.at_or_before(later - MICROSECOND) == earlier
        assert rule.count(moment, later) == 1


@tried(300)
@given(specs, places())
def test_the_way_back_meets_the_same_moments_as_the_way_there(spec: Spec, place: Place) -> None:
    rule, (start, end) = read(spec, place), stretch(spec, place.moment)
    there = walk(rule, start, end)
    assert walk_back(rule, start, end) == there
    assert all(earlier < later for earlier, later in pairwise(there))


@tried(300)
@given(specs, places())
def test_counting_is_walking_without_the_walk(spec: Spec, place: Place) -> None:
    rule, (start, end) = read(spec, place), stretch(spec, place.moment)
    assert rule.count(start, end) == len(walk(rule, start, end))


@tried(300)
@given(coarse_specs, places(), anywhere)
def test_counting_decades_is_walking_without_the_walk(
    spec: Spec, place: Place, other: datetime
) -> None:
    rule = read(spec, place)
    end = min(other, place.moment + 20 * 365 * DAY)
    assert rule.count(place.moment, end) == len(walk(rule, place.moment, end))


@tried(500)
@given(specs | coarse_specs, places(), places(), places())
def test_two_stretches_hold_as_much_as_both_together(
    spec: Spec, one: Place, two: Place, three: Place
) -> None:
    rule = read(spec, one)
    start, middle, end = sorted([one.moment, two.moment, three.moment])
    assert rule.count(start, end) == rule.count(start, middle) + rule.count(middle, end)


@tried(500)
@given(specs | coarse_specs, places())
def test_a_rule_reads_back_from_its_own_text(spec: Spec, place: Place) -> None:
    rule = read(spec, place)
    again = parse(str(rule))
    assert (again, hash(again), str(again)) == (rule, hash(rule), str(rule))


@tried(200)
@given(st.lists(coarse_specs, min_size=2, max_size=3), st.data(), places())
def test_rules_together_have_the_moments_of_each_once(
    parts: list[Spec], data: st.DataObject, place: Place
) -> None:
    rules = [read(spec, data.draw(places_like(place))) for spec in parts]
    together = reduce(or_, rules)
    start, end = place.moment - 200 * DAY, place.moment + 200 * DAY
    moments_of_each = sorted({moment for rule in rules for moment in walk(rule, start, end)})
    assert walk(together, start, end) == walk_back(together, start, end) == moments_of_each
    assert together.count(start, end) == len(moments_of_each)


@tried(200)
@given(coarse_specs, coarse_specs, places(), st.data())
def test_a_rule_without_another_has_the_moments_that_the_other_lacks(
    one: Spec, two: Spec, place: Place, data: st.DataObject
) -> None:
    a, b = read(one, place), read(two, data.draw(places_like(place)))
    start, end = place.moment - 200 * DAY, place.moment + 200 * DAY
    rest = sorted({*walk(a, start, end)} - {*walk(b, start, end)})
    assert (a - b).count(start, end) == len(rest)
    try:
        there, back = walk(a - b, start, end), walk_back(a - b, start, end)
    except RuleError:  # ten thousand moments taken away in a row: it may give up
        reject()
    assert there == back == rest


def test_a_rule_beside_itself_is_still_that_rule() -> None:
    rule = cron("0 9 * * * Europe/Berlin")
    year = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    assert (rule | rule).count(*year) == (rule | rule | rule).count(*year) == rule.count(*year)


@pytest.mark.parametrize(
    ("line", "expression"),
    [
        ("0 9 * * *", "*-*-* 09:00:00"),
        ("* * * * * *", "*-*-* *:*:*"),
        ("0,30 0 9 * * *", "*-*-* 09:00:00/30"),
        ("*/15 8-17 * * 1-5", "Mon..Fri *-*-* 08..17:00/15"),
        ("0 0 1-31 * *", "*-*-* 00:00:00"),
    ],
)
def test_rules_are_equal_when_they_mean_the_same_however_written(
    line: str, expression: str
) -> None:
    assert cron(line, zone="Europe/Berlin") == calendar(expression, zone="Europe/Berlin")
