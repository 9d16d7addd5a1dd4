"""Calendar expressions: the whole of systemd's OnCalendar grammar.

    Mon..Fri *-*-* 09:00:00 Europe/Berlin        weekdays, date, time of day, zone
    *-*~01 12:00                                 the last day of the month
    Mon *-05~07/1                                the last Monday in May

Every part must match, weekday *and* date (unlike cron). A missing date means every day, a missing
time 00:00. ``str`` of the rule is systemd's normalised form.

For ``dst="cron"`` a calendar rule is a **wildcard** if its hour or minute is ``*`` or an open
repetition from zero such as ``0/15``: the rules whose cron field would begin with ``*``. Any other
rule is **fixed**. So a cron line and its calendar form behave the same at clock changes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple, NoReturn

from duly.errors import RuleError
from duly.rules.days import (
    EVERY_DAY,
    FIRST_YEAR,
    LAST_YEAR,
    NEW_YEAR,
    YEARS,
    FieldDays,
    full,
    members,
    pack,
    shared,
)
from duly.rules.explain import WEEKDAYS as WEEKDAY_NAMES
from duly.rules.explain import ranges
from duly.rules.rule_text import RuleText, close_to, never_occurs, read, written, zone_missing
from duly.rules.wall_times import MINUTE, SECOND, WallTimes, minutes_of_day
from duly.rules.zone import dst_policy, unknown_zone
from duly.rules.zoned import Zoned

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
ANY_WEEKDAY = full(0, 6)


class Component(NamedTuple):
    """A component of a date or a time. Seconds are counted in microseconds."""

    name: str
    low: int
    high: int
    width: int = 2
    unit: int = 1


YEAR = Component("year", FIRST_YEAR, LAST_YEAR, width=4)
MONTH = Component("month", 1, 12)
DAY = Component("day", 1, 31)
DAY_FROM_END = Component("day before the month's end", 1, 28)
HOUR = Component("hour", 0, 23)
MINUTE_PART = Component("minute", 0, 59)
SECOND_PART = Component("second", 0, MINUTE - 1, unit=SECOND)


class Item(NamedTuple):
    """``start``, ``start..stop``, ``start/step`` or ``start..stop/step``; -1 for no stop.

    The fields are in this order because systemd sorts by them.
    """

    start: int
    stop: int = -1
    step: int = 0

    def values(self, part: Component) -> range:
        if part is DAY_FROM_END and self.step and self.stop < 0:
            return range(self.start, 0, -self.step)  # ~7/1 runs towards the month's end
        if self.stop < 0:
            return range(self.start, (part.high if self.step else self.start) + 1, self.step or 1)
        return range(self.start, self.stop + 1, self.step or part.unit)


Items = tuple[Item, ...]
ANY: Items = ()  # a star


@dataclass(frozen=True)
class Expression:
    """A calendar expression, read but not yet placed in a zone."""

    weekdays: int = ANY_WEEKDAY
    year: Items = ANY
    month: Items = ANY
    day: Items = ANY
    from_end: bool = False
    hour: Items = (Item(0),)
    minute: Items = (Item(0),)
    second: Items = (Item(0),)

    def days(self) -> FieldDays:
        days = _bits(self.day, DAY_FROM_END if self.from_end else DAY)
        named = FieldDays(
            years=_bits(self.year, YEAR) >> FIRST_YEAR,
            months=_bits(self.month, MONTH),
            dates=0 if self.from_end else days,
            last=days if self.from_end else 0,
            weekdays=self.weekdays,
        )
        return shared(named)

    def wall(self) -> WallTimes:
        hours, minutes = _bits(self.hour, HOUR), _bits(self.minute, MINUTE_PART)
        return WallTimes(self.days(), minutes_of_day(hours, minutes), _seconds(self.second))

    @property
    def fixed(self) -> bool:
        """Return whether it has fixed times of day, instead of repeating through the day."""
        return not any(
            items == ANY or any(item.start == 0 and item.step and item.stop < 0 for item in items)
            for items in (self.hour, self.minute)
        )

    @property
    def fractional(self) -> bool:
        return any(number % SECOND for item in self.second for number in (item.start, item.step))

    @property
    def names(self) -> str | None:
        if _bits(self.hour, HOUR) != full(0, 23):
            return "an hour"
        return None if self.days() == EVERY_DAY else "a day"

    def __str__(self) -> str:
        named = ranges(members(self.weekdays), WEEKDAYS.__getitem__, "..")
        weekdays = "" if self.weekdays == ANY_WEEKDAY else f"{','.join(named)} "
        mark = "~" if self.from_end else "-"
        date = f"{_text(self.year, YEAR)}-{_text(self.month, MONTH)}{mark}{_text(self.day, DAY)}"
        time = f"{_text(self.hour, HOUR)}:{_text(self.minute, MINUTE_PART)}"
        return f"{weekdays}{date} {time}:{_text(self.second, SECOND_PART)}"


def _values(items: Items, part: Component) -> Iterator[int]:
    for item in items:
        yield from item.values(part)


def _bits(items: Items, part: Component) -> int:
    return pack(_values(items, part)) if items else full(part.low, part.high)


def _seconds(items: Items) -> Sequence[int]:
    spans = [item.values(SECOND_PART) for item in items] or [range(0, MINUTE, SECOND)]
    if len(spans) == 1 and len(spans[0]) > 60:
        return spans[0]  # a step may be as fine as a microsecond: too many to list
    return tuple(sorted({value for span in spans for value in span}))


def _text(items: Items, part: Component) -> str:
    return ",".join(_item_text(item, part) for item in items) if items else "*"


def _item_text(item: Item, part: Component) -> str:
    stop = f"..{show(item.stop, part)}" if item.stop >= 0 else ""
    step = f"/{show(item.step, part._replace(width=0))}" if item.step else ""
    return f"{show(item.start, part)}{stop}{step}"


def show(value: int, part: Component) -> str:
    if part.unit == 1:
        return f"{value:0{part.width}d}" if part.width else str(value)
    whole, fraction = divmod(value, SECOND)
    shown = f"{whole:0{part.width}d}" if part.width else str(whole)
    return f"{shown}.{fraction:06d}" if fraction else shown


_WEEKDAY_NUMBERS = {
    name.lower(): number for names in (WEEKDAYS, WEEKDAY_NAMES) for number, name in enumerate(names)
}

# One for each hundredth of a second of a minute.
MOST_LISTED = 6_000

SHORTHANDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "anually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
}


def calendar(text: str, *, zone: str | None = None, dst: str = "cron") -> Zoned:
    """Read a systemd calendar expression."""
    source = read(text, zone=zone, dst=dst)
    expression, in_utc = _ExpressionReader(source).expression()
    days = expression.days()
    if not days.ever():
        raise never_occurs(source.body)
    zone = "UTC" if in_utc else source.zone
    if zone is None and expression.names:
        raise zone_missing(source, expression.names)
    policy = dst_policy(source.dst, fixed=expression.fixed)
    if policy.gap == "shift" and expression.fractional:
        raise RuleError(
            f'"{source.body}" names fractions of a second: shift would move each; take end or skip',
            text=source.text,
            position=source.start,
        )
    text = written(str(expression), zone, policy)
    return Zoned(expression.wall(), zone or "UTC", policy, text, stated=zone is not None)


class _ExpressionReader:
    """Reads an expression from left to right; errors name the position."""

    def __init__(self, source: RuleText) -> None:
        self.source = source
        self.body = SHORTHANDS.get(source.body.lower(), source.body)
        self.at = 0

    def expression(self) -> tuple[Expression, bool]:
        """Return the expression, and whether it is always in UTC (as ``@seconds`` is)."""
        if not self.body:
            self._fail("an empty text is not a calendar expression")
        weekdays = self._weekdays() if self._peek().isalpha() else ANY_WEEKDAY
        if self._take("@"):
            return replace(self._epoch(), weekdays=weekdays), True
        expression = Expression(weekdays=weekdays)
        if any(mark in self._word() for mark in "-~"):
            expression = self._date(expression)
        if self._peek():
            expression = self._time(expression)
        return expression, False

    def _weekdays(self) -> int:
        bits = 0
        while True:
            first = last = self._weekday()
            if self._take("..") or self._take("-"):
                start = self.at
                last = self._weekday()
                if last < first:
                    self.at = start
                    self._fail(f"the range runs backwards: {WEEKDAYS[first]} to {WEEKDAYS[last]}")
            bits |= full(first, last)
            if not self._take(",") or self._peek() in ("", " "):
                break
        self._end_of_part()
        return bits

    def _weekday(self) -> int:
        word = self._match(r"[A-Za-z]+")
        number = _WEEKDAY_NUMBERS.get(word.lower())
        if number is None:
            self.at -= len(word)
            known = (*WEEKDAYS, *WEEKDAY_NAMES, *(() if self.at else SHORTHANDS))
            self._fail(f'"{word or self._peek()}" is not a weekday', close_to(word, known))
        return number

    def _epoch(self) -> Expression:
        start = self.at
        digits = self._match(r"[0-9]+")
        if not digits or self._peek():
            self._fail("expected a number of seconds after @, and nothing else")
        if int(digits) >= NEW_YEAR[YEARS] * 24 * 60 * 60:
            self.at = start
            self._fail(f"second {digits} is after the year {LAST_YEAR}")
        moment = datetime.fromtimestamp(int(digits), UTC)
        return Expression(
            year=(Item(moment.year),),
            month=(Item(moment.month),),
            day=(Item(moment.day),),
            hour=(Item(moment.hour),),
            minute=(Item(moment.minute),),
            second=(Item(moment.second * SECOND),),
        )

    def _date(self, expression: Expression) -> Expression:
        marks = "".join(mark for mark in self._word() if mark in "-~")
        if marks not in ("-", "~", "--", "-~"):
            self._fail("a date is year-month-day or month-day, with ~ only before the day")
        year = ANY
        if len(marks) == 2:
            year = self._component(YEAR)
            self._expect("-")
        month = self._component(MONTH)
        self._expect(marks[-1])
        day = self._component(DAY_FROM_END if marks[-1] == "~" else DAY)
        self._end_of_part()
        from_end = marks[-1] == "~" and day != ANY
        return replace(expression, year=year, month=month, day=day, from_end=from_end)

    def _time(self, expression: Expression) -> Expression:
        hour = self._component(HOUR)
        if not self._peek():
            self._fail("expected a time such as 09:00 or a date such as *-*-01")
        self._expect(":")
        minute = self._component(MINUTE_PART)
        second = self._component(SECOND_PART) if self._take(":") else expression.second
        rest = self.body[self.at :]
        if rest[:1] == " " and rest.strip()[:1].isalpha():
            raise unknown_zone(
                rest.strip(), text=self.source.text, position=self.source.start + self.at + 1
            )
        if rest:
            self._fail(f'expected the end, found "{rest}"')
        return replace(expression, hour=hour, minute=minute, second=second)

    def _component(self, part: Component) -> Items:
        if self._take("*"):
            return ANY
        items = {self._item(part)}
        while self._take(","):
            items.add(self._item(part))
        if part is SECOND_PART and Item(0, step=SECOND) in items:
            return ANY
        if len(items) > 1 and sum(len(item.values(part)) for item in items) > MOST_LISTED:
            self._fail(f"a list may name at most {MOST_LISTED} {part.name}s; write one step")
        return tuple(sorted(items))

    def _item(self, part: Component) -> Item:
        start, stop, step = self._number(part), -1, 0
        if self._take(".."):
            before = self.at
            stop = self._number(part)
            if stop < start:
                self.at = before
                self._fail(f"the range runs backwards, from {show(start, part)}")
        if self._take("/"):
            step = self._step(part, start, open_ended=stop < 0)
        if stop < 0:
            return Item(start, step=step)
        stop -= (stop - start) % (step or part.unit)
        if stop == start:
            return Item(start)
        return Item(start, stop, 0 if step == part.unit else step)

    def _number(self, part: Component) -> int:
        before = self.at
        number = self._digits(part)
        if part is YEAR and number < 100:
            number += 2000 if number < 70 else 1900
        if not part.low <= number <= part.high:
            found = self.body[before : self.at]
            self.at = before
            self._fail(f"{part.name} {found} is out of range {part.low}–{show(part.high, part)}")
        return number

    def _step(self, part: Component, start: int, *, open_ended: bool) -> int:
        before = self.at
        step = self._digits(part)
        room = start - part.low if part is DAY_FROM_END else part.high - start
        if step < 1 or (open_ended and step > room):
            found = self.body[before : self.at]
            self.at = before
            self._fail(f"a step of {found} from {part.name} {show(start, part)} leads nowhere")
        return step

    def _digits(self, part: Component) -> int:
        word = self._match(r"[0-9]+(?:\.[0-9]+)?" if part is SECOND_PART else r"[0-9]+")
        if not word:
            article = "an" if part is HOUR else "a"
            self._fail(f"expected {article} {part.name}, found {self._found()}")
        if part is not SECOND_PART:
            return int(word)
        whole, _, fraction = word.partition(".")
        digits = f"{fraction:0<7}"  # six are kept, the seventh rounds
        return int(whole) * SECOND + int(digits[:6]) + (digits[6] >= "5")

    def _end_of_part(self) -> None:
        """Expect the end or spaces after weekdays and dates."""
        if self._peek():
            self._expect(" ")
            self._match(" *")

    def _expect(self, literal: str) -> None:
        if not self._take(literal):
            self._fail(f'expected "{literal}", found {self._found()}')

    def _found(self) -> str:
        return f'"{self._peek()}"' if self._peek() else "the end"

    def _peek(self) -> str:
        return self.body[self.at : self.at + 1]

    def _word(self) -> str:
        return self.body[self.at :].partition(" ")[0]

    def _take(self, literal: str) -> bool:
        found = self.body.startswith(literal, self.at)
        self.at += len(literal) if found else 0
        return found

    def _match(self, pattern: str) -> str:
        found = re.compile(pattern).match(self.body, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""

    def _fail(self, message: str, suggestions: Sequence[str] = ()) -> NoReturn:
        raise RuleError(
            f'{message} (character {self.at + 1} of "{self.body}")',
            text=self.source.text,
            position=self.source.start + self.at,
            suggestions=suggestions,
        )
