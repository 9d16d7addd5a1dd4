"""Modifiers: rules made from one other rule by bounds, delay, jitter or a duration.

A query of such a rule costs a few queries of the inner rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import blake2b

from duly.durations import MICROSECOND, parse_duration, say_duration, show_duration
from duly.errors import RuleError
from duly.instants import FIRST_US, LAST_US, from_us, to_us
from duly.rules.budget import spend
from duly.rules.once import show_moment
from duly.rules.rule import Derived, Rule, SameMoments, clause, wrapped


@dataclass(frozen=True, repr=False)
class Bounded(Derived):
    """The moments from ``first`` to ``last``, both included, at most ``most`` of them."""

    first: int | None = None
    last: int | None = None
    most: int | None = None

    def after_us(self, instant: int) -> int | None:
        found = self.rule.after_us(max(instant, self._low - 1))
        return found if found is not None and found <= self._high else None

    def at_or_before_us(self, instant: int) -> int | None:
        found = self.rule.at_or_before_us(min(instant, self._high))
        return found if found is not None and found >= self._low else None

    def count_us(self, after: int, until: int) -> int:
        low, high = max(after, self._low - 1), min(until, self._high)
        return self.rule.count_us(low, high) if low < high else 0

    @property
    def expands(self) -> bool:
        return True

    def shared_count_us(self, others: Sequence[Rule], after: int, until: int) -> int:
        low, high = max(after, self._low - 1), min(until, self._high)
        return self.rule.shared_count_us(others, low, high) if low < high else 0

    @property
    def _low(self) -> int:
        return FIRST_US if self.first is None else self.first

    @cached_property
    def _high(self) -> int:
        last = LAST_US if self.last is None else self.last
        if self.most is None:
            return last
        nth = self.rule.nth_after_us(self._low - 1, self.most)
        return last if nth is None else min(last, nth)

    def explain(self) -> str:
        said = self.rule.explain().removesuffix(".")
        said += "" if self.first is None else f", from {from_us(self.first):%Y-%m-%d %H:%M} UTC"
        said += "" if self.last is None else f", until {from_us(self.last):%Y-%m-%d %H:%M} UTC"
        said += "" if self.most is None else f", {self.most} time{'s' * (self.most > 1)}"
        return f"{said}."

    def __str__(self) -> str:
        said = wrapped(self.rule)
        said += "" if self.first is None else f" start={show_moment(from_us(self.first))}"
        said += "" if self.last is None else f" end={show_moment(from_us(self.last))}"
        said += "" if self.most is None else f" count={self.most}"
        return said


@dataclass(frozen=True, repr=False)
class Delayed(Derived):
    """Every moment later by the same delay."""

    delay: int

    def after_us(self, instant: int) -> int | None:
        found = self.rule.after_us(instant - self.delay)
        return None if found is None else found + self.delay

    def at_or_before_us(self, instant: int) -> int | None:
        found = self.rule.at_or_before_us(instant - self.delay)
        return None if found is None else found + self.delay

    def count_us(self, after: int, until: int) -> int:
        return self.rule.count_us(after - self.delay, until - self.delay)

    def explain(self) -> str:
        delay = say_duration(timedelta(microseconds=self.delay))
        return f"{self.rule.explain().removesuffix('.')}, {delay} later."

    def __str__(self) -> str:
        return f"{wrapped(self.rule)} delay={show_duration(timedelta(microseconds=self.delay))}"


@dataclass(frozen=True, repr=False)
class Jittered(Derived):
    """Every moment later by its own delay, picked by a seed and the moment.

    A delay is shorter than the time to the next moment, so that order and number stay the same.
    """

    width: int
    seed: int

    def after_us(self, instant: int) -> int | None:
        nominal = self.rule.at_or_before_us(instant)
        if nominal is None or self._moved(nominal) <= instant:
            nominal = self.rule.after_us(instant)
        return None if nominal is None else self._moved(nominal)

    def at_or_before_us(self, instant: int) -> int | None:
        nominal = self.rule.at_or_before_us(instant)
        if nominal is not None and self._moved(nominal) > instant:
            nominal = self.rule.at_or_before_us(nominal - 1)
        return None if nominal is None else self._moved(nominal)

    def count_us(self, after: int, until: int) -> int:
        pending_before, pending_after = self._pending(after), self._pending(until)
        return self.rule.count_us(after, until) + pending_before - pending_after

    def _pending(self, instant: int) -> int:
        """Return 1 if a moment of the inner rule has passed but is still delayed, else 0."""
        nominal = self.rule.at_or_before_us(instant)
        return int(nominal is not None and self._moved(nominal) > instant)

    def _moved(self, nominal: int) -> int:
        spend()
        following = self.rule.after_us(nominal)
        room = self.width if following is None else min(self.width, following - nominal)
        return nominal + picked(self.seed, nominal, room)

    def explain(self) -> str:
        width = say_duration(timedelta(microseconds=self.width))
        return f"{self.rule.explain().removesuffix('.')}, up to {width} later."

    def __str__(self) -> str:
        width = show_duration(timedelta(microseconds=self.width))
        return f"{wrapped(self.rule)} jitter={width} seed={self.seed:x}"


@dataclass(frozen=True, repr=False)
class Lasting(SameMoments, Derived):
    """The same moments, each the start of a period: for exclusion from another rule."""

    length: int

    @property
    def inner(self) -> Rule:
        return self.rule

    @property
    def has_stretches(self) -> bool:
        return True

    def blocked_until_us(self, instant: int) -> int | None:
        began = self.rule.at_or_before_us(instant)
        return began + self.length if began is not None and instant < began + self.length else None

    def explain(self) -> str:
        length = say_duration(timedelta(microseconds=self.length))
        return f"For {length} from {clause(self.rule).removeprefix('on ')}."

    def __str__(self) -> str:
        return f"{wrapped(self.rule)} lasting={show_duration(timedelta(microseconds=self.length))}"


def bounded(
    rule: Rule,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    count: int | None = None,
) -> Rule:
    """Limit a rule to the moments from ``start`` to ``end``, inclusive, at most ``count``."""
    _check_rule(rule)
    if count is not None and start is None:
        raise RuleError(
            f"count={count} counts from a start: pass start= too; or let a schedule count its runs "
            f"from now: max_runs={count}"
        )
    if count is not None and (type(count) is not int or count < 1):
        raise RuleError(f"count={count!r} is not a number from 1 on")
    first = None if start is None else to_us(start)
    last = None if end is None else to_us(end)
    if first is not None and last is not None and last < first:
        raise RuleError(f"the end {end} is before the start {start}")
    if first is None and last is None:
        return rule
    found = Bounded(rule, first, last, count)
    found.after_us(FIRST_US)  # find the end of the count now, or raise now
    return found


def delayed(rule: Rule, delay: str | timedelta) -> Rule:
    """Delay every moment of a rule by the same time."""
    return Delayed(_check_rule(rule), _positive(delay))


def spread(rule: Rule, width: str | timedelta, *, name: str) -> Rule:
    """Delay a rule by a part of ``width`` that depends on the name.

    So a thousand rules for midnight do not all start at midnight.
    """
    seconds = _positive(width) // 1_000_000
    delay = picked(_seed(name), 0, max(seconds, 1)) * 1_000_000
    return Delayed(_check_rule(rule), delay) if delay else _check_rule(rule)


def jitter(rule: Rule, width: str | timedelta, *, name: str) -> Jittered:
    """Delay every moment by a part of ``width`` that depends on the name and the moment."""
    return Jittered(_check_rule(rule), _positive(width), _seed(name))


def lasting(rule: Rule, length: str | timedelta) -> Rule:
    """Make the moments the starts of periods, so that ``other - rule`` excludes the periods."""
    return Lasting(_check_rule(rule), _positive(length))


def _check_rule(rule: Rule) -> Rule:
    if not isinstance(rule, Rule):
        raise RuleError(
            f'"{rule}" is not a rule with times of its own; parse(…) makes one from text, and a '
            "spaced timing has its own bounded(start, end)"
        )
    if rule.has_stretches:
        raise RuleError(f'"{rule}" is something to take away: do this to its rule before lasting=')
    return rule


def picked(seed: int, instant: int, width: int) -> int:
    """Return a number from 0 up to ``width`` that depends only on the seed and the instant."""
    digest = blake2b(f"{seed}:{instant}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") * width >> 64


def delay_of(name: str, moment: datetime, width: timedelta) -> timedelta:
    """Return the jitter of a moment for a name: a length from 0 up to ``width``."""
    return picked(_seed(name), to_us(moment), width // MICROSECOND) * MICROSECOND


def _seed(name: str) -> int:
    if type(name) is not str or not name:
        raise RuleError(f"name={name!r} is not a name to pick by")
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def _positive(length: str | timedelta) -> int:
    found = parse_duration(length) // MICROSECOND
    if found < 1:
        raise RuleError(f"{length} is not a length of time above zero")
    return found
