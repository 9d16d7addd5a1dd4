"""How much work one question about rules may cost.

A rule may be made of rules, sixteen levels deep, and some kinds ask the rule inside them thousands
of times for one answer. A limit in each loop does not help: the limits of the levels multiply, and
a line of text could keep a process busy for years. So a question has one budget, and every level
spends from it. When it is used up, the question is refused with a ``RuleError``.

A step is about what one lookup costs, a few microseconds. ``Rule.after``, ``count`` and the other
public questions open a budget where none is open. Whoever asks several questions as one opens one
around all of them, as the scheduler does to decide a schedule.
"""

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final, Self

from duly.errors import RuleError

MOST_STEPS: Final = 500_000  # takes one to three seconds; rules in use need a few hundred


class Budget:
    """Steps that are left. Where another budget is open already, that one counts."""

    __slots__ = ("_token", "left")

    def __init__(self) -> None:
        self.left = MOST_STEPS
        self._token: Token[Budget | None] | None = None

    @property
    def spent(self) -> int:
        return MOST_STEPS - self.left

    def __enter__(self) -> Self:
        if _OPEN.get() is None:
            self._token = _OPEN.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _OPEN.reset(self._token)
            self._token = None


_OPEN: ContextVar[Budget | None] = ContextVar("duly.rules.budget", default=None)


def spend(steps: int = 1) -> None:
    """Take steps from the open budget, or refuse the question."""
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
