"""The budget of a query: a limit on the work that evaluating a rule may cost.

Rules nest up to sixteen levels, and some kinds query their inner rule thousands of times for one
result. A limit in each loop is not enough: the limits multiply over the levels, and one line of
text could keep a process busy for years. So a query has one budget that all levels share. When it
is used up, the query raises ``RuleError``.

A step is about one lookup, a few microseconds. ``Rule.after``, ``count`` and the other public
methods open a budget if none is open. A caller that makes several queries as one opens a budget
around them, as the scheduler does for the decision about a schedule.
"""

from contextvars import ContextVar, Token
from typing import Final, Self

from duly.errors import RuleError

MOST_STEPS: Final = 500_000  # takes one to three seconds; rules in use need a few hundred


class Budget:
    """The steps that are left. If another budget is open already, that one is used."""

    __slots__ = ("_token", "left")

    def __init__(self) -> None:
        self.left: int = MOST_STEPS
        self._token: Token[Budget | None] | None = None

    @property
    def spent(self) -> int:
        return MOST_STEPS - self.left

    def __enter__(self) -> Self:
        if _OPEN.get() is None:
            self._token = _OPEN.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _OPEN.reset(self._token)
            self._token = None


_OPEN: ContextVar[Budget | None] = ContextVar("duly.rules.budget", default=None)


def spend(steps: int = 1) -> None:
    """Take steps from the open budget; raise ``RuleError`` if it is used up."""
    budget = _OPEN.get()
    if budget is None:
        return
    budget.left -= steps
    if budget.left < 0:
        raise RuleError(
            f"the rule takes too long to evaluate: more than {MOST_STEPS:,} steps for one "
            "question; nest fewer exclusions, lasting= and jitter= in each other, or exclude "
            "longer stretches"
        )
