"""Who asks to be told of an end is told once, in that end's transaction, and nobody else is."""

import json
from collections import Counter
from collections.abc import Callable

from duly.model.states import State
from duly.model.terms import Terms
from tests.simulation.watch import JobRow


class Callbacks:
    def __init__(self, sometimes: Counter[str], violated: Callable[[str], None]) -> None:
        self._sometimes = sometimes
        self._violated = violated
        self._asked: Counter[tuple[str, int]] = Counter()  # the task, and of which job
        self._made: Counter[tuple[str, int]] = Counter()

    def ended(self, row: JobRow, state: State) -> None:
        terms = Terms.from_json(row.terms)
        callback = {
            State.SUCCEEDED: terms.on_success,
            State.CANCELLED: terms.on_cancelled,
        }.get(state, terms.on_failure)
        if callback is not None:
            self._asked[callback.task, row.id] += 1

    def made(self, row: JobRow) -> None:
        number = json.loads(row.args).get("job_id")
        if number is not None:
            self._made[row.task, number] += 1

    def judge(self) -> None:
        """A transaction is complete."""
        if not self._asked and not self._made:
            return
        if self._asked != self._made:
            self._violated(f"ends ask for {dict(self._asked)}, and there came {dict(self._made)}")
        self._sometimes["callback made"] += self._made.total()
        self._asked.clear()
        self._made.clear()
