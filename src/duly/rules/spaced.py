"""Fixed delays: ``spaced 10m`` runs ten minutes after the end of the last run.

A schedule may have a fixed delay, but it is not a rule: it has no fixed set of moments, because
each depends on the end of the previous run. It has bounds and exclusions, and computes the moment
after the end of a run; everything else that a rule can do is refused.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from duly.durations import MICROSECOND, SHORTEST, parse_duration, say_duration, show_duration
from duly.errors import RuleError
from duly.instants import from_us, to_us
from duly.rules.budget import Budget, spend
from duly.rules.rule import Minus, Rule, clause, wrapped

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
                f'"{self}" has no moments to take away: exclude stretches of time, as holidays, '
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
        self._refuse("say what follows a moment, only what follows an end (after_end)")

    def at_or_before(self, moment: datetime, /) -> NoReturn:  # noqa: ARG002
        self._refuse("say what came before a moment")

    def _refuse(self, what: str) -> NoReturn:
        raise RuleError(
            f'"{self}" cannot {what}: each run is timed from the end of the one before, so there '
            f'is no fixed set of moments. For a fixed rate, say "every {show_duration(self.delay)}"'
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
