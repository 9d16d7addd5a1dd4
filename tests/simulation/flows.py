"""What must hold of flows after every commit: what is counted is what there is.

A step starts when what it waits for is over, and not before; a part that has succeeded is not done
again; and a flow has ended when all of its steps have.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator

from duly.flow.progress import OVER
from tests.simulation.watch import FlowRow, JobRow, PartRow, StepRow

FAILED = ("failed", "cancelled")


class Flows:
    def __init__(self, sometimes: Counter[str], violated: Callable[[str], None]) -> None:
        self._sometimes = sometimes
        self._violated = violated
        self._flows: dict[int, FlowRow] = {}
        self._steps: dict[int, dict[int, StepRow]] = {}
        self._parts: dict[int, dict[tuple[int, int], PartRow]] = {}
        self._touched: dict[int, None] = {}

    def flow(self, before: FlowRow | None, after: FlowRow | None) -> None:
        if after is None:  # it was forgotten, long after its end
            for rows in (self._flows, self._steps, self._parts):
                rows.pop(before.id if before else 0, None)
            return
        self._flows[after.id] = after
        self._touched[after.id] = None
        self._sometimes["flow within a flow"] += before is None and after.root != after.id
        self._sometimes["flow resumed"] += before is not None and _is_resumed(before, after)

    def step(self, _: StepRow | None, after: StepRow | None) -> None:
        if after is not None:
            self._steps.setdefault(after.flow, {})[after.number] = after
            self._touched[after.flow] = None
            self._sometimes[f"step {after.state}"] += 1

    def part(self, before: PartRow | None, after: PartRow | None) -> None:
        row = after or before
        if row is None or row.flow not in self._flows:
            return
        parts = self._parts.setdefault(row.flow, {})
        if after is None:
            parts.pop((row.step, row.part), None)
            return
        known = parts.get((row.step, row.part))
        if known is not None and known.state == "succeeded" != after.state:
            self._violated(f"{after} is done again, and had succeeded as {known}")
        parts[row.step, row.part] = after
        self._touched[row.flow] = None

    def left(self, row: JobRow) -> None:
        """A job that ran without a worker does not run any more."""
        if self._flows[row.id].remaining:
            self._violated(f"flow {row.id} has ended before its steps: {self._flows[row.id]}")

    def judge(self) -> None:
        """A transaction is complete."""
        for number in self._touched:
            if number in self._flows:
                for wrong in self._wrong(number):
                    self._violated(f"flow {number}: {wrong}")
        self._touched.clear()

    def _wrong(self, number: int) -> Iterator[str]:
        flow, steps = self._flows[number], self._steps.get(number, {})
        parts = self._parts.get(number, {}).values()
        running = Counter(part.step for part in parts if part.state == "running")
        left = [step.number for step in steps.values() if step.state not in OVER]
        if len(left) != flow.remaining:
            yield f"{flow.remaining} steps are said to be left, and there are {left}"
        if (flow.remaining == 0) is not (flow.ended_at is not None):
            yield f"{flow.remaining} steps are left, and it ended at {flow.ended_at}"
        for step in steps.values():
            before = [steps[n].state for n in json.loads(step.follows)]
            waiting = sum(state not in OVER for state in before)
            if step.state not in OVER and step.waiting != waiting:
                yield f"{step} waits for {waiting}: {before}"
            if step.state == "waiting" and not waiting:
                yield f"{step} waits for nothing"
            if step.state == "running" and not _may_run(step, before):
                yield f"{step} runs, and before it is {before}"
            if step.state == "running" and step.remaining != running[step.number]:
                yield f"{step} has {running[step.number]} parts that have not ended"


def _may_run(step: StepRow, before: list[str]) -> bool:
    if any(state not in OVER for state in before):
        return False
    return {
        "all_succeeded": all(state == "succeeded" for state in before),
        "any_failed": any(state in FAILED for state in before),
        "all_done": True,
    }[step.runs_when]


def _is_resumed(before: FlowRow, after: FlowRow) -> bool:
    return before.ended_at is not None and after.ended_at is None
