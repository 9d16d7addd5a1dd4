"""The interface of a rule: a fixed, ordered set of moments.

A rule never reads the clock and does not iterate over moments to count them: ``after`` and
``at_or_before`` are lookups, ``count`` is a subtraction. So a year of downtime costs as much as a
minute, and a query always has the same result.

The public methods take aware datetimes and return UTC. Internally an instant is an integer:
microseconds since 1970-01-01T00:00Z. A new kind of rule implements three methods: ``after_us``,
``at_or_before_us`` and ``count_us``.

Rules combine: ``a | b`` has the moments of both, each once; ``a - b`` has those of ``a`` that ``b``
does not exclude.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duly.errors import RuleError
from duly.instants import EPOCH, FIRST_US, LAST_US, from_us, to_us
from duly.rules.budget import Budget, spend
from duly.rules.explain import WEEKDAYS
from duly.rules.wall_times import DAY


class Rule(ABC):
    """A fixed, ordered set of moments."""

    zone: str | None  # the zone of its wall clock, if it has one
    compound = False  # made of other rules

    def after(self, moment: datetime, /) -> datetime | None:
        """Return the first moment strictly later than ``moment``, or None."""
        with Budget():
            found = self.after_us(to_us(moment))
        return None if found is None else EPOCH + timedelta(microseconds=found)

    def at_or_before(self, moment: datetime, /) -> datetime | None:
        """Return the last moment that is not later than ``moment``, or None."""
        with Budget():
            found = self.at_or_before_us(to_us(moment))
        return None if found is None else EPOCH + timedelta(microseconds=found)

    def count(self, after: datetime, until: datetime) -> int:
        """Return the number of moments later than ``after`` and not later than ``until``."""
        start, end = to_us(after), to_us(until)
        with Budget():
            return self.count_us(start, end) if end > start else 0

    def between(self, start: datetime, end: datetime, limit: int = 1000) -> Iterator[datetime]:
        """Yield the moments later than ``start`` and not later than ``end``, at most ``limit``."""
        return self._between(to_us(start), to_us(end), limit)

    def _between(self, instant: int, last: int, limit: int) -> Iterator[datetime]:
        budget = Budget()  # one for all moments; not open while the caller runs
        for _ in range(limit):
            with budget:
                found = self.after_us(instant)
            if found is None or found > last:
                return
            yield from_us(found)
            instant = found

    @abstractmethod
    def after_us(self, instant: int) -> int | None: ...

    @abstractmethod
    def at_or_before_us(self, instant: int) -> int | None: ...

    @abstractmethod
    def count_us(self, after: int, until: int) -> int: ...

    def nth_after_us(self, instant: int, n: int) -> int | None:
        """Return the ``n``-th moment later than ``instant``, by doubling strides, then bisection.

        Only the range in question is counted, so that an early moment is found quickly.
        """
        low, stride = instant, DAY
        while (found := self.count_us(low, low + stride)) < n:
            spend()
            low, stride, n = low + stride, stride * 2, n - found
            if low > LAST_US:
                return None
        high = low + stride
        while high - low > 1:
            spend()
            middle = (low + high) // 2
            found = self.count_us(low, middle)
            if found < n:
                low, n = middle, n - found
            else:
                high = middle
        return high

    @abstractmethod
    def explain(self) -> str:
        """Return the rule as an English sentence."""

    @abstractmethod
    def __str__(self) -> str:
        """Return text that parses back to an equal rule."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    # -- combination with other rules ----------------------------------------------------------

    @property
    def stated_zone(self) -> str | None:
        """The zone in the rule's text, also used for exclusions without a zone."""
        return self.zone

    @property
    def has_stretches(self) -> bool:
        """Return whether its moments start periods, as holidays do, instead of being points."""
        return False

    @property
    def size(self) -> int | None:
        """Return how many moments it has, if they are listed."""
        return None

    def blocked_until_us(self, instant: int) -> int | None:
        """Return the end of the excluded period that contains ``instant``, or None.

        Used when the rule is subtracted from another. A point excludes only itself.
        """
        return instant + 1 if self.at_or_before_us(instant) == instant else None

    @property
    def expands(self) -> bool:
        """Return whether the rule has its own ``shared_count_us``, faster than iterating."""
        return False

    def shared_count_us(self, others: "Sequence[Rule]", after: int, until: int) -> int:
        """Return the number of moments that this rule and all the others share."""
        if not others:
            return self.count_us(after, until)
        for at, other in enumerate(others):
            if other.expands:
                rest = [self, *others[:at], *others[at + 1 :]]
                return other.shared_count_us(rest, after, until)
        return _walk([self, *others], after, until)

    def refuse_company(self) -> None:  # noqa: B027 - most rules can be combined
        """Raise ``RuleError`` if the rule cannot be combined with others."""

    def placed_in(self, zone: str | None) -> "Rule":  # noqa: ARG002 - for rules that lack a zone
        """Return the rule in this zone, if it needs a zone and has none."""
        return self

    def __or__(self, other: "Rule") -> "Rule":
        if not isinstance(other, Rule):
            return NotImplemented
        other.refuse_company()
        parts = tuple(dict.fromkeys((*_parts(self), *_parts(other))))
        if len(parts) > MOST_PARTS:
            raise RuleError(f"at most {MOST_PARTS} rules can be joined with |")
        return Union(parts) if len(parts) > 1 else parts[0]

    def __sub__(self, other: "Rule") -> "Rule":
        if not isinstance(other, Rule):
            return NotImplemented
        if self.has_stretches:
            raise RuleError(
                f'"{self}" is something to take away; nothing can be taken from it. Join what '
                "should happen all the same with |"
            )
        placed = other.placed_in(self.stated_zone)
        placed.blocked_until_us(0)  # raises now if the zone is missing
        return Minus(self, placed)


# Every combination of parts is counted, and their number is two to the power of this.
MOST_PARTS = 8

# How many moments are visited to count what rules share, where there is no faster way: 1 s.
MOST_WALKED = 100_000


def _walk(rules: "Sequence[Rule]", after: int, until: int) -> int:
    """Count shared moments by iterating over the sparsest rule."""
    count, instant = 0, after
    for _ in range(MOST_WALKED):
        spend()
        candidates = [rule.after_us(instant) for rule in rules]
        if None in candidates:
            return count
        furthest = max(candidate for candidate in candidates if candidate is not None)
        if furthest > until:
            return count
        met = all(candidate == furthest for candidate in candidates)
        count += met
        instant = furthest if met else furthest - 1
    raise _uncountable(rules)


def _uncountable(rules: "Sequence[Rule]") -> RuleError:
    named = " and ".join(f'"{rule}"' for rule in rules)
    return RuleError(f"{named} are too dense to be counted together over so long a time")


def _parts(rule: Rule) -> tuple[Rule, ...]:
    return rule.parts if isinstance(rule, Union) else (rule,)


def wrapped(rule: Rule) -> str:
    """Return the rule's text as an operand, in parentheses if it is a combination."""
    return f"({rule})" if rule.compound else str(rule)


def clause(rule: Rule) -> str:
    """Return the rule's sentence as a part of a longer one."""
    sentence = rule.explain().removesuffix(".")
    if sentence.startswith(WEEKDAYS):
        return sentence
    return sentence[0].lower() + sentence[1:]


@dataclass(frozen=True, repr=False)
class Union(Rule):
    """The union of several rules."""

    parts: tuple[Rule, ...]
    compound = True
    expands = True

    @property
    def zone(self) -> str | None:  # type: ignore[override]
        zones = {part.zone for part in self.parts}
        return zones.pop() if len(zones) == 1 else None

    @property
    def stated_zone(self) -> str | None:
        zones = {part.stated_zone for part in self.parts}
        return zones.pop() if len(zones) == 1 else None

    @property
    def has_stretches(self) -> bool:
        return any(part.has_stretches for part in self.parts)

    def after_us(self, instant: int) -> int | None:
        spend(len(self.parts))
        found = [part.after_us(instant) for part in self.parts]
        return min((us for us in found if us is not None), default=None)

    def at_or_before_us(self, instant: int) -> int | None:
        spend(len(self.parts))
        found = [part.at_or_before_us(instant) for part in self.parts]
        return max((us for us in found if us is not None), default=None)

    def count_us(self, after: int, until: int) -> int:
        return self.shared_count_us([], after, until)

    def shared_count_us(self, others: Sequence[Rule], after: int, until: int) -> int:
        """Count the first part, then the rest, minus what both share."""
        spend()
        first, *more = self.parts
        rest = Union(tuple(more)) if len(more) > 1 else more[0]
        count = first.shared_count_us(others, after, until)
        both = first.shared_count_us([rest, *others], after, until) if count else 0
        return count + rest.shared_count_us(others, after, until) - both

    def blocked_until_us(self, instant: int) -> int | None:
        spend(len(self.parts))
        found = [part.blocked_until_us(instant) for part in self.parts]
        return max((us for us in found if us is not None), default=None)

    def placed_in(self, zone: str | None) -> Rule:
        return Union(tuple(part.placed_in(zone) for part in self.parts))

    def explain(self) -> str:
        first, *rest = self.parts
        return "; or ".join([first.explain().removesuffix("."), *map(clause, rest)]) + "."

    def __str__(self) -> str:
        return " | ".join(map(wrapped, self.parts))


@dataclass(frozen=True, repr=False)
class Derived(Rule):
    """A rule made from one other."""

    rule: Rule
    compound = True

    @property
    def zone(self) -> str | None:  # type: ignore[override]
        return self.rule.zone

    @property
    def stated_zone(self) -> str | None:
        return self.rule.stated_zone

    def placed_in(self, zone: str | None) -> Rule:
        return replace(self, rule=self.rule.placed_in(zone))


class SameMoments(Rule):
    """A rule with the moments of another one, ``inner``."""

    @property
    @abstractmethod
    def inner(self) -> Rule: ...

    def after_us(self, instant: int) -> int | None:
        return self.inner.after_us(instant)

    def at_or_before_us(self, instant: int) -> int | None:
        return self.inner.at_or_before_us(instant)

    def count_us(self, after: int, until: int) -> int:
        return self.inner.count_us(after, until)


@dataclass(frozen=True, repr=False)
class Minus(Derived):
    """The moments of a rule without those that an exclusion removes."""

    exclusion: Rule
    expands = True

    # This many excluded points are visited one by one; then the next moment is searched by
    # counting. Excluded periods are skipped as a whole, up to 27 years of daily ones.
    FEW_POINTS = 64
    MOST_STRETCHES = 10_000

    def after_us(self, instant: int) -> int | None:
        found = self.rule.after_us(instant)
        for _ in range(self._tries):
            spend()
            end = None if found is None else self.exclusion.blocked_until_us(found)
            if end is None:
                return found
            instant = end - 1
            found = self.rule.after_us(instant)
        if self.exclusion.has_stretches:
            raise self._nothing_found(instant)
        return self.nth_after_us(instant, 1)

    def at_or_before_us(self, instant: int) -> int | None:
        found = self.rule.at_or_before_us(instant)
        for _ in range(self._tries):
            spend()
            if found is None or self.exclusion.blocked_until_us(found) is None:
                return found
            start = self.exclusion.at_or_before_us(found)
            instant = found - 1 if start is None else start - 1
            found = self.rule.at_or_before_us(instant)
        if self.exclusion.has_stretches:
            raise self._nothing_found(instant)
        kept = self.count_us(FIRST_US, instant)
        return self.nth_after_us(FIRST_US, kept) if kept else None

    def count_us(self, after: int, until: int) -> int:
        return self.shared_count_us([], after, until)

    def shared_count_us(self, others: Sequence[Rule], after: int, until: int) -> int:
        spend()
        kept = self.rule.shared_count_us(others, after, until)
        if not self.exclusion.has_stretches:
            return kept - self.rule.shared_count_us([self.exclusion, *others], after, until)
        for start, end in self._stretches(after, until):
            kept -= self.rule.shared_count_us(others, start - 1, end)
        return kept

    def _stretches(self, after: int, until: int) -> Iterator[tuple[int, int]]:
        """Yield the excluded periods in ``(after, until]``, as first and last instants."""
        instant = after + 1
        for _ in range(MOST_WALKED):
            spend()
            if instant > until:
                return
            end = self.exclusion.blocked_until_us(instant)
            if end is None:
                start = self.exclusion.after_us(instant)
                if start is None:
                    return
                instant = start
            else:
                yield instant, min(end - 1, until)
                instant = end
        raise _uncountable([self.rule, self.exclusion])

    def explain(self) -> str:
        exclusion = clause(self.exclusion).removesuffix(f" {self.zone}")
        return f"{self.rule.explain().removesuffix('.')}; except {exclusion}."

    def __str__(self) -> str:
        left = str(self.rule) if isinstance(self.rule, Minus) else wrapped(self.rule)
        return f"{left} - {wrapped(self.exclusion)}"

    @property
    def _tries(self) -> int:
        if self.exclusion.has_stretches:
            return self.MOST_STRETCHES
        return self.FEW_POINTS if self.exclusion.size is None else self.exclusion.size + 1

    def _nothing_found(self, instant: int) -> RuleError:
        return RuleError(
            f'"{self}" leaves nothing: {self.MOST_STRETCHES} stretches in a row are taken away '
            f"near {from_us(instant):%Y-%m-%d}"
        )
