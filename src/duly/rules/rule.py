"""What a rule is: a fixed, ordered set of moments.

A rule never reads the clock and never iterates over what it is asked to count: ``after`` and
``at_or_before`` look things up, ``count`` subtracts. So a year of downtime costs as much as a
minute, and the same question always gets the same answer.

Outside, moments are aware datetimes, and answers are in UTC. Inside, and for whoever writes a new
kind of rule, an instant is an integer: microseconds since 1970-01-01T00:00Z. A kind of rule is
three methods: ``after_us``, ``at_or_before_us`` and ``count_us``.

Rules combine: ``a | b`` has the moments of both, each once; ``a - b`` has those of ``a`` that ``b``
does not take away.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

from duly.errors import RuleError
from duly.rules.instants import EPOCH, FIRST_US, LAST_US, from_us, to_us
from duly.rules.wall import DAY
from duly.rules.words import WEEKDAYS


class Rule(ABC):
    """A fixed, ordered set of moments."""

    zone: str | None  # the clock on which wall it follows, if it follows one
    compound = False  # made of other rules

    def after(self, moment: datetime, /) -> datetime | None:
        """The first moment strictly later than ``moment``, or None."""
        found = self.after_us(to_us(moment))
        return None if found is None else EPOCH + timedelta(microseconds=found)

    def at_or_before(self, moment: datetime, /) -> datetime | None:
        """The last moment that is not later than ``moment``, or None."""
        found = self.at_or_before_us(to_us(moment))
        return None if found is None else EPOCH + timedelta(microseconds=found)

    def count(self, after: datetime, until: datetime) -> int:
        """How many moments are later than ``after`` and not later than ``until``."""
        start, end = to_us(after), to_us(until)
        return self.count_us(start, end) if end > start else 0

    def between(self, start: datetime, end: datetime, limit: int = 1000) -> Iterator[datetime]:
        """The moments later than ``start`` and not later than ``end``, at most ``limit``."""
        last, instant = to_us(end), to_us(start)
        for _ in range(limit):
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
        """The ``n``-th moment later than ``instant``: in strides that double, then by halving.

        Only the stretch in question is ever counted, so that an early moment is found early.
        """
        low, stride = instant, DAY
        while (found := self.count_us(low, low + stride)) < n:
            low, stride, n = low + stride, stride * 2, n - found
            if low > LAST_US:
                return None
        high = low + stride
        while high - low > 1:
            middle = (low + high) // 2
            found = self.count_us(low, middle)
            if found < n:
                low, n = middle, n - found
            else:
                high = middle
        return high

    @property
    def inner(self) -> "tuple[Rule, ...]":
        """The rules it is made of."""
        return ()

    @abstractmethod
    def explain(self) -> str:
        """The rule as an English sentence."""

    @abstractmethod
    def __str__(self) -> str:
        """The rule as text that parses back to an equal rule."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    # -- what a rule can do beside another -----------------------------------------------------

    @property
    def has_stretches(self) -> bool:
        """Whether its moments begin stretches, as holidays do, instead of being points."""
        return False

    def blocked_until_us(self, instant: int) -> int | None:
        """As something to subtract: the end of the stretch that holds ``instant``, if one does.

        A point takes away only itself.
        """
        return instant + 1 if self.at_or_before_us(instant) == instant else None

    def in_step_with(self, other: "Rule") -> bool:  # noqa: ARG002 - a kind of rule may know better
        """Whether moments shared with ``other`` can be counted without walking along them."""
        return False

    def shared_count_us(self, others: "Sequence[Rule]", after: int, until: int) -> int:
        """How many moments this rule and all the others have in common.

        Found by leaps and bounds, at a step for each moment of the sparsest rule.
        """
        if not others:
            return self.count_us(after, until)
        rules = [self, *others]
        count, instant = 0, after
        while True:
            candidates = [rule.after_us(instant) for rule in rules]
            if None in candidates:
                return count
            furthest = max(candidate for candidate in candidates if candidate is not None)
            if furthest > until:
                return count
            met = all(candidate == furthest for candidate in candidates)
            count += met
            instant = furthest if met else furthest - 1

    def placed_in(self, zone: str | None) -> "Rule":  # noqa: ARG002 - for rules that lack a zone
        """The same rule, in this zone if it needs one and has none of its own."""
        return self

    def __or__(self, other: "Rule") -> "Rule":
        if not isinstance(other, Rule):
            return NotImplemented
        parts = tuple(dict.fromkeys((*_parts(self), *_parts(other))))
        return Union(parts) if len(parts) > 1 else parts[0]

    def __sub__(self, other: "Rule") -> "Rule":
        if not isinstance(other, Rule):
            return NotImplemented
        return Minus(self, other.placed_in(self.zone))


def _parts(rule: Rule) -> tuple[Rule, ...]:
    return rule.parts if isinstance(rule, Union) else (rule,)


def wrapped(rule: Rule) -> str:
    """The rule's text as an operand: in parentheses if it is made of others."""
    return f"({rule})" if rule.compound else str(rule)


def clause(rule: Rule) -> str:
    """The rule's sentence as a part of a longer one."""
    sentence = rule.explain().removesuffix(".")
    if sentence.startswith(WEEKDAYS):
        return sentence
    return sentence[0].lower() + sentence[1:]


@dataclass(frozen=True, repr=False)
class Union(Rule):
    """The moments of all its parts, each once."""

    parts: tuple[Rule, ...]
    compound = True

    @property
    def inner(self) -> tuple[Rule, ...]:
        return self.parts

    @property
    def zone(self) -> str | None:  # type: ignore[override]
        zones = {part.zone for part in self.parts}
        return zones.pop() if len(zones) == 1 else None

    @property
    def has_stretches(self) -> bool:
        return any(part.has_stretches for part in self.parts)

    def after_us(self, instant: int) -> int | None:
        found = [part.after_us(instant) for part in self.parts]
        return min((us for us in found if us is not None), default=None)

    def at_or_before_us(self, instant: int) -> int | None:
        found = [part.at_or_before_us(instant) for part in self.parts]
        return max((us for us in found if us is not None), default=None)

    def count_us(self, after: int, until: int) -> int:
        """Counts by inclusion and exclusion.

        Groups of parts that never meet need no larger groups.
        """
        total, sign = 0, 1
        groups: list[tuple[Rule, ...]] = [(part,) for part in self.parts]
        while groups:
            counts = {group: group[0].shared_count_us(group[1:], after, until) for group in groups}
            total += sign * sum(counts.values())
            sign = -sign
            meeting = {group for group, count in counts.items() if count}
            size = len(groups[0]) + 1
            groups = [
                group
                for group in combinations(self.parts, size)
                if all(smaller in meeting for smaller in combinations(group, size - 1))
            ]
        return total

    def blocked_until_us(self, instant: int) -> int | None:
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
class Minus(Rule):
    """The moments of a rule that an exclusion does not take away."""

    rule: Rule
    exclusion: Rule
    compound = True

    @property
    def inner(self) -> tuple[Rule, ...]:
        return (self.rule,)

    # So many excluded moments in a row are walked over; beyond, they are counted if that is
    # possible without walking, and refused after MOST_EXCLUDED otherwise.
    FEW_EXCLUDED = 64
    MOST_EXCLUDED = 10_000

    @property
    def zone(self) -> str | None:  # type: ignore[override]
        return self.rule.zone

    @property
    def has_stretches(self) -> bool:
        return self.rule.has_stretches

    def after_us(self, instant: int) -> int | None:
        found = self.rule.after_us(instant)
        for tries in range(self.MOST_EXCLUDED):
            end = None if found is None else self.exclusion.blocked_until_us(found)
            if end is None:
                return found
            if tries == self.FEW_EXCLUDED and self.rule.in_step_with(self.exclusion):
                return self.nth_after_us(end - 1, 1)
            found = self.rule.after_us(end - 1)
        raise self._too_much_excluded(instant)

    def at_or_before_us(self, instant: int) -> int | None:
        found = self.rule.at_or_before_us(instant)
        for tries in range(self.MOST_EXCLUDED):
            if found is None or self.exclusion.blocked_until_us(found) is None:
                return found
            if tries == self.FEW_EXCLUDED and self.rule.in_step_with(self.exclusion):
                kept = self.count_us(FIRST_US, found)
                return self.nth_after_us(FIRST_US, kept) if kept else None
            start = self.exclusion.at_or_before_us(found)
            found = self.rule.at_or_before_us(found - 1 if start is None else start - 1)
        raise self._too_much_excluded(instant)

    def count_us(self, after: int, until: int) -> int:
        kept = self.rule.count_us(after, until)
        if not self.exclusion.has_stretches:
            return kept - self.rule.shared_count_us([self.exclusion], after, until)
        instant = after + 1
        while instant <= until:
            end = self.exclusion.blocked_until_us(instant)
            if end is None:
                start = self.exclusion.after_us(instant)
                if start is None:
                    break
                instant = start
            else:
                kept -= self.rule.count_us(instant - 1, min(end - 1, until))
                instant = end
        return kept

    def blocked_until_us(self, instant: int) -> int | None:
        end = self.rule.blocked_until_us(instant)
        if end is None or self.exclusion.blocked_until_us(instant) is not None:
            return None
        freed = self.exclusion.after_us(instant)
        return end if freed is None else min(end, freed)

    def placed_in(self, zone: str | None) -> Rule:
        return Minus(self.rule.placed_in(zone), self.exclusion.placed_in(zone))

    def explain(self) -> str:
        exclusion = clause(self.exclusion).removesuffix(f" {self.zone}")
        return f"{self.rule.explain().removesuffix('.')}; except {exclusion}."

    def __str__(self) -> str:
        left = str(self.rule) if isinstance(self.rule, Minus) else wrapped(self.rule)
        return f"{left} - {wrapped(self.exclusion)}"

    def _too_much_excluded(self, instant: int) -> RuleError:
        return RuleError(
            f'"{self}" excludes more than {self.MOST_EXCLUDED} moments in a row near '
            f"{from_us(instant):%Y-%m-%dT%H:%MZ}: exclude a stretch, as in (RULE) lasting=8h"
        )
