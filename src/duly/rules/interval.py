"""Fixed rates: ``every 5m`` and ``every 2 weeks at 09:00 from 2026-01-05``.

Hours and less are elapsed time: ``every 24h`` moves on the wall clock when the clock changes. Days
and more are counted on the calendar: ``every 1 day at 09:00`` is 09:00 before and after a clock
change, so it needs a time of day and a zone. Both have an anchor and are never counted from "now":
a restart or another node computes the same moments.

And fixed delays: ``spaced 10m`` runs ten minutes after the end of the last run. A schedule may have
a fixed delay, but it is not a rule: it has no fixed set of times, because each depends on the end
of the previous run. It has bounds and exclusions, and computes the moment after the end of a run;
everything else that a rule can do is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from math import gcd
from typing import NoReturn

from duly.durations import MICROSECOND, SHORTEST, parse_duration, say_duration, show_duration
from duly.errors import RuleError
from duly.instants import EPOCH, LAST_US, from_us, to_us
from duly.rules.budget import Budget, spend
from duly.rules.days import (
    EVERY_DAY,
    FIRST_YEAR,
    LAST_YEAR,
    Days,
    StepDays,
    StepMonths,
    day_number,
    pack,
)
from duly.rules.once import read_moment, show_moment
from duly.rules.rule import Minus, Rule, clause, wrapped
from duly.rules.rule_text import RuleText, read, written, zone_missing
from duly.rules.wall_times import DAY, MINUTE, MINUTES, SECOND, WallTimes
from duly.rules.zone import PRESETS, dst_policy
from duly.rules.zoned import Zoned

_BODY = re.compile(
    r"(?P<step>.+?)(?: at (?P<time>\S+))?(?: from (?P<first>\S+))?(?: at (?P<time_behind>\S+))?"
)
_CALENDAR_STEP = re.compile(
    r"(?:(?P<count>\d{1,6}) ?)?(?P<unit>d|w|day|week|month|year)s?", re.ASCII
)
_UNITS = {"d": "day", "w": "week"}
_HOURS = {"day": 24, "week": 7 * 24}
_TIME = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?", re.ASCII)
_BY_NAME = re.compile(
    r"other |weekday|(mon|tue|tues|wed|wednes|thu|thurs|fri|sat|satur|sun)(day)?s?\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, repr=False)
class Every(Rule):
    """A fixed rate in elapsed time, from an anchor on."""

    step: int
    anchor: int
    zone: str | None = field(default=None, init=False)

    def after_us(self, instant: int) -> int | None:
        steps = max((instant - self.anchor) // self.step + 1, 0)
        found = self.anchor + steps * self.step
        return found if found < LAST_US else None

    def at_or_before_us(self, instant: int) -> int | None:
        steps = (min(instant, LAST_US - 1) - self.anchor) // self.step
        return None if steps < 0 else self.anchor + steps * self.step

    def count_us(self, after: int, until: int) -> int:
        return self._count_to(until) - self._count_to(after)

    @property
    def expands(self) -> bool:
        divides_the_day = self.step % MINUTE == 0 and DAY % self.step == 0
        return divides_the_day or MINUTE % self.step == 0

    def shared_count_us(self, others: Sequence[Rule], after: int, until: int) -> int:
        """Count shared moments: two rates share a rate or nothing; others are compared in UTC."""
        rates = [other for other in others if isinstance(other, Every)]
        if len(rates) < len(others):
            if not self.expands:
                return super().shared_count_us(others, after, until)
            after = max(after, self.anchor - 1)
            return (
                self._on_the_clock().shared_count_us(others, after, until) if after < until else 0
            )
        meeting: Every | None = self
        for rate in rates:
            meeting = meeting and meeting.meeting(rate)
        return meeting.count_us(after, until) if meeting else 0

    def _on_the_clock(self) -> Zoned:
        """Return a rate that divides the day or the minute as times of day in UTC."""
        minute, second = divmod(self.anchor % self.step, MINUTE)
        minutes = pack(range(minute, MINUTES, max(self.step // MINUTE, 1)))
        seconds = tuple(range(second, MINUTE, self.step)) if self.step < MINUTE else (second,)
        return Zoned(WallTimes(EVERY_DAY, minutes, seconds), "UTC", PRESETS["elapsed"], str(self))

    def meeting(self, other: "Every") -> "Every | None":
        common = gcd(self.step, other.step)
        if (other.anchor - self.anchor) % common:
            return None
        step, turns = self.step * other.step // common, other.step // common
        steps = (other.anchor - self.anchor) // common * pow(self.step // common, -1, turns) % turns
        first = self.anchor + steps * self.step
        late = max(self.anchor, other.anchor) - first
        return Every(step, first + -(-late // step) * step)

    def _count_to(self, instant: int) -> int:
        return max((min(instant, LAST_US - 1) - self.anchor) // self.step + 1, 0)

    def explain(self) -> str:
        step = say_duration(timedelta(microseconds=self.step))
        if " and " not in step:
            step = step.removeprefix("1 ")
        since = "" if self.anchor == 0 else f" from {from_us(self.anchor):%Y-%m-%d %H:%M:%S} UTC"
        return f"Every {step}{since}."

    def __str__(self) -> str:
        since = "" if self.anchor == 0 else f" from {show_moment(from_us(self.anchor))}"
        return f"every {show_duration(timedelta(microseconds=self.step))}{since}"


def every(
    step: str | timedelta,
    *,
    anchor: datetime | None = None,
    zone: str | None = None,
    dst: str = "cron",
) -> Rule:
    """Read a fixed rate: ``"5m"``, ``"1h30m from 2026-01-01T00:15Z"``, ``"2 weeks at 09:00 …"``."""
    if isinstance(step, timedelta):
        return _elapsed(parse_duration(step), EPOCH if anchor is None else anchor)
    source = read(step, zone=zone, dst=dst)
    found = _BODY.fullmatch(source.body.removeprefix("every "))
    if not found or _BY_NAME.match(found["step"]):
        raise _refused(
            source,
            'not an interval; for weekdays write "Mon 09:00 Europe/Berlin", "Mon..Fri 09:00 '
            'Europe/Berlin", or "every 2 weeks at 09:00 from 2026-01-05 Europe/Berlin"',
        )
    if counted := _CALENDAR_STEP.fullmatch(found["step"]):
        if anchor is not None:
            raise _refused(source, 'say the first day in the text: "… from 2026-01-05"')
        return _on_the_calendar(source, int(counted["count"] or 1), counted["unit"], found)
    if found["time"] or found["time_behind"]:
        raise _refused(
            source, f"{found['step']} is elapsed time and has no time of day; count days"
        )
    if source.names_zone:
        if (step := found["step"]).isdigit():
            raise _refused(source, f"{step} what? say {step}s, {step}m, {step}h")
        raise _refused(source, f"{found['step']} is elapsed time, the same in every zone")
    if found["first"]:
        if anchor is not None:
            raise _refused(source, "two anchors: one in the text, one beside it")
        anchor = _moment(source, found["first"])
    step = f"1 {found['step']}" if found["step"][0].isalpha() else found["step"]
    return _elapsed(_length(source, step), EPOCH if anchor is None else anchor)


def _elapsed(step: timedelta, anchor: datetime) -> Every:
    if step < SHORTEST:
        raise RuleError(f"every {step / SHORTEST:g}ms is too often: the shortest step is 1ms")
    if not 0 <= to_us(anchor) < LAST_US:
        raise RuleError(
            f"the anchor {anchor.isoformat()} is outside the years {FIRST_YEAR} to {LAST_YEAR}"
        )
    return Every(step // MICROSECOND, to_us(anchor))


def _on_the_calendar(source: RuleText, count: int, unit: str, found: re.Match[str]) -> Zoned:
    unit = _UNITS.get(unit, unit)
    clock = found["time"] or found["time_behind"]
    shown = f"every {count} {unit}{'s' * (count != 1)}"
    if not count:
        raise _refused(source, "the smallest step is 1")
    needs_first = (count, unit) != (1, "day")
    if not clock or (needs_first and not found["first"]):
        asked = ["at what time"] * (not clock)
        asked += ["from which day"] * (needs_first and not found["first"])
        whole = f"{shown} at {clock or '09:00'}"
        whole += f" from {found['first'] or '2026-01-05'}" if needs_first else ""
        elapsed = f', or for elapsed time "every {count * _HOURS[unit]}h"' if unit in _HOURS else ""
        zone = source.zone or "Europe/Berlin"
        raise _refused(source, f'say {" and ".join(asked)}: "{whole} {zone}"{elapsed}')
    at_time = _time(source, clock)
    first_day = _date(source, found["first"]) if found["first"] else None
    if source.zone is None:
        raise zone_missing(source, "an hour")
    wall = WallTimes(
        _days(source, count, unit, first_day),
        1 << at_time.hour * 60 + at_time.minute,
        (at_time.second * SECOND,),
    )
    since = f" from {first_day}" if first_day else ""
    exact = at_time.isoformat("seconds" if at_time.second else "minutes")
    policy = dst_policy(source.dst, fixed=True)
    text = written(f"{shown} at {exact}{since}", source.zone, policy)
    return Zoned(wall, source.zone, policy, text)


def _days(source: RuleText, count: int, unit: str, first: date | None) -> Days:
    if first is None:
        return EVERY_DAY
    if unit in ("day", "week"):
        return StepDays(count * (7 if unit == "week" else 1), day_number(first))
    if first.day > 28:
        raise _refused(
            source, f'not every month has a day {first.day}: take one up to 28, or "*-*~01 09:00"'
        )
    return StepMonths(count * (12 if unit == "year" else 1), first)


def _length(source: RuleText, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except RuleError as error:
        raise _refused(source, error.message) from None


def _moment(source: RuleText, text: str) -> datetime:
    moment = read_moment(text)
    if moment.tzinfo is None:
        whole = text if "T" in text else f"{text}T00:00"
        raise _refused(source, f'the anchor needs an offset, as in "from {whole}Z"')
    return moment


def _date(source: RuleText, text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise _refused(source, f'"{text}" is not a date such as 2026-01-05') from None
    if not FIRST_YEAR <= day.year <= LAST_YEAR:
        raise _refused(source, f"{day} is outside the years {FIRST_YEAR} to {LAST_YEAR}")
    return day


def _time(source: RuleText, text: str) -> time:
    found = _TIME.fullmatch(text)
    hour, minute, second = (
        (int(number or 0) for number in found.groups("0")) if found else (99, 0, 0)
    )
    try:
        return time(hour, minute, second)
    except ValueError:
        raise _refused(source, f'"{text}" is not a time of day such as 09:00') from None


def _refused(source: RuleText, message: str) -> RuleError:
    return RuleError(f'"{source.body}": {message}', text=source.text, position=source.start)


_NEVER = datetime(2199, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True, repr=False)
class Spaced:
    """A delay after the end of the last run, between bounds, outside exclusions."""

    delay: timedelta
    start: datetime | None = None
    end: datetime | None = None
    exclusions: tuple[Rule, ...] = ()
    zone = None
    stated_zone = None

    def after_end(self, end: datetime, /) -> datetime | None:
        """Return the next moment after a run that ended at ``end``; None if there is none."""
        moment = to_us(end) + self.delay // MICROSECOND
        if self.start is not None:
            moment = max(moment, to_us(self.start))
        with Budget():
            return self._free(moment)

    def _free(self, moment: int) -> datetime | None:
        """Return the first instant from ``moment`` on that is not excluded."""
        last = to_us(self.end or _NEVER)
        for _ in range(Minus.MOST_STRETCHES):
            spend(len(self.exclusions))
            blocked = [exclusion.blocked_until_us(moment) for exclusion in self.exclusions]
            later = max((until for until in blocked if until is not None), default=None)
            if moment > last or later is None:
                return from_us(moment) if moment <= last else None
            moment = later
        raise RuleError(f'"{self}" leaves nothing: what is taken away has no end in sight')

    def bounded(self, *, start: datetime | None = None, end: datetime | None = None) -> "Spaced":
        found = replace(self, start=start or self.start, end=end or self.end)
        if found.start and found.end and to_us(found.end) < to_us(found.start):
            raise RuleError(f"the end {found.end} is before the start {found.start}")
        return found

    def __repr__(self) -> str:
        return f"<Spaced {self}>"

    def explain(self) -> str:
        said = f"{say_duration(self.delay)} after the end of the last run"
        said += f", from {self.start:%Y-%m-%d %H:%M %Z}" if self.start else ""
        said += f", until {self.end:%Y-%m-%d %H:%M %Z}" if self.end else ""
        if self.exclusions:
            said += f"; except {', '.join(map(clause, self.exclusions))}"
        return f"{said}."

    def __str__(self) -> str:
        said = f"spaced {show_duration(self.delay)}"
        said += f" start={self.start.isoformat()}" if self.start else ""
        said += f" end={self.end.isoformat()}" if self.end else ""
        return " - ".join([said, *map(wrapped, self.exclusions)])

    def __sub__(self, other: "Rule | Spaced") -> "Spaced":
        if isinstance(other, Spaced):
            other._refuse("be taken away")
        if not isinstance(other, Rule):
            return NotImplemented
        if not other.has_stretches:
            raise RuleError(
                f'"{self}" has no times to exclude: exclude stretches of time, as holidays, '
                f'dates, or "({other}) lasting=8h"'
            )
        other.blocked_until_us(0)  # raises now if the zone is missing
        return replace(self, exclusions=(*self.exclusions, other))

    def __or__(self, other: object) -> NoReturn:
        self._refuse("be combined with another rule")

    __ror__ = __or__
    __rsub__ = __or__

    def count(self, after: datetime, until: datetime) -> NoReturn:  # noqa: ARG002 - Rule's signature
        self._refuse("be counted")

    def between(self, start: datetime, end: datetime, limit: int = 1000) -> NoReturn:  # noqa: ARG002
        self._refuse("be listed")

    def after(self, moment: datetime, /) -> NoReturn:  # noqa: ARG002
        self._refuse("say what follows a time, only what follows an end (after_end)")

    def at_or_before(self, moment: datetime, /) -> NoReturn:  # noqa: ARG002
        self._refuse("say what came before a time")

    def _refuse(self, what: str) -> NoReturn:
        raise RuleError(
            f'"{self}" cannot {what}: each run is timed from the end of the one before, so there '
            f'is no fixed set of times. For a fixed rate, say "every {show_duration(self.delay)}"'
        )


def spaced(delay: str | timedelta) -> Spaced:
    """Return a fixed delay after the end of the last run."""
    try:
        length = parse_duration(delay.removeprefix("spaced ") if isinstance(delay, str) else delay)
    except RuleError as error:
        raise RuleError(error.message, text=str(delay), position=0) from None
    if length < SHORTEST:
        raise RuleError(f'"{delay}" is too short a delay: the shortest is 1ms')
    return Spaced(length)
