"""Who runs what at this moment, all over the world, and whether they may.

The store knows who should run a job; this knows who does. A worker that is not sure of its lease
stops its jobs before the store gives them to others: so whatever is taken back is not run any more
by somebody who still believes in it.
"""

from collections.abc import Callable
from typing import Protocol

from duly.model.states import State


class Played(Protocol):
    """An attempt under way, as far as it matters here."""

    @property
    def job(self) -> int: ...
    @property
    def fence(self) -> int: ...
    @property
    def believes(self) -> bool: ...


Holder = Callable[[int], tuple[State, int] | None]


class Acts:
    def __init__(
        self, violated: Callable[[str], None], *, holder: Holder, trusted: Callable[[], bool]
    ) -> None:
        self._violated = violated
        self._holder = holder  # a job's state and fence, as the store has them
        self._trusted = trusted  # whether the store's clock has gone as clocks go
        self._acts: dict[int, list[Played]] = {}

    def begin(self, act: Played) -> None:
        others = self._acts.setdefault(act.job, [])
        if self._trusted():
            if act.believes and self._holder(act.job) != (State.RUNNING, act.fence):
                self._violated(f"{act} begins, and for the store it is {self._holder(act.job)}")
            for other in others:
                if other.believes:
                    self._violated(f"{act} begins, and {other} goes on")
        others.append(act)

    def end(self, act: Played) -> None:
        self._acts[act.job].remove(act)

    def taken_back(self, job: int) -> None:
        """Its worker has no lease any more, says the store."""
        for act in self._acts.get(job, ()):
            if act.believes and self._trusted():
                self._violated(f"{act} was taken back, and goes on")
