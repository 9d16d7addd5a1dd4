"""The progress of a flow: which steps start, end or are cancelled when a job of it has ended.

The decision works on counters alone. The caller loads the affected steps in rounds: the step that
ended, then the steps after it. A step whose counter reaches zero starts, or ends without running
and is then part of the next round. So the end of a job costs as much as there are steps after it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from duly.model.flow import Rest, StepState, When
from duly.model.states import State

OVER = (StepState.SUCCEEDED, StepState.FAILED, StepState.CANCELLED, StepState.SKIPPED)


@dataclass(slots=True, kw_only=True)
class StepFacts:
    """The counters of a step."""

    number: int
    name: str
    when: When
    if_failed: Rest
    wanted: bool
    rescue: bool
    behind: tuple[int, ...]
    state: StepState
    waiting: int  # steps before it that have not ended
    unmet: int  # … that have ended and not succeeded
    failed: int  # … of which because something failed
    parts: int = 0
    remaining: int = 0  # parts that have not ended
    missed: int = 0  # parts that failed
    stopped: int = 0  # parts that were cancelled with the rest of the flow
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.state in OVER


@dataclass(slots=True, kw_only=True)
class FlowFacts:
    remaining: int  # steps that have not ended
    failed: int  # steps that have failed
    ending: State | None = None  # the final state, once no step runs any more
    reason: str = ""  # of the final state, or of the first failure


@dataclass(slots=True)
class Course:
    """The decision about a flow, collected while the affected steps are loaded."""

    flow: FlowFacts
    steps: dict[int, StepFacts] = field(default_factory=dict)
    starting: list[int] = field(default_factory=list)  # to be made into jobs
    stopping: list[int] = field(default_factory=list)  # whose jobs are asked to stop
    cancels_rest: bool = False  # every unfinished step has to be loaded
    _ended: list[int] = field(default_factory=list)  # ended steps whose successors do not know yet
    _brought: dict[int, StepFacts] = field(default_factory=dict)  # the steps as they were loaded

    def bring(self, steps: Iterable[StepFacts]) -> None:
        """Add loaded steps; steps that are known already are newer and stay."""
        for step in steps:
            if step.number not in self.steps:
                self.steps[step.number] = step
                self._brought[step.number] = replace(step)

    @property
    def changed(self) -> list[StepFacts]:
        """The steps that differ from how they were loaded."""
        return [step for number, step in self.steps.items() if step != self._brought[number]]

    @property
    def unknown(self) -> list[int]:
        """The steps that have to be loaded before ``go_on``."""
        wanted = {n for number in self._ended for n in self.steps[number].behind}
        return sorted(wanted - self.steps.keys())

    @property
    def is_under_way(self) -> bool:
        return bool(self._ended) or self.cancels_rest

    @property
    def is_over(self) -> bool:
        return self.flow.remaining == 0

    def started(self, number: int, parts: int, remaining: int) -> None:
        """Record how many jobs a step has, and how many of them are unfinished."""
        step = self.steps[number]
        step.state, step.parts, step.remaining = StepState.RUNNING, parts, remaining
        if not remaining:
            self._end(step, StepState.SUCCEEDED)

    def refused(self, number: int, reason: str) -> None:
        """Record that the jobs of a step could not be made: the step fails."""
        self._fail(self.steps[number], reason)

    def job_ended(self, number: int, state: State, reason: str) -> None:
        step = self.steps[number]
        step.remaining -= 1
        if state is State.CANCELLED and self._is_stopped(step):
            step.stopped += 1
        elif state is not State.SUCCEEDED:
            step.missed += 1
            step.reason = step.reason or reason
            if step.missed == 1 and step.if_failed == "cancel" and step.remaining:
                self.stopping.append(step.number)  # the other parts are not needed
        if step.remaining == 0:
            self._settle(step)

    def go_on(self) -> None:
        """Update the steps after the ended ones. All ``unknown`` steps must have been loaded."""
        if self.cancels_rest:
            self._cancel_rest()
        ended, self._ended = self._ended, []
        for number in ended:
            step = self.steps[number]
            for behind in step.behind:
                self._tell(self.steps[behind], step.state)

    def stop(self, state: State, reason: str) -> None:
        """End the whole flow. All unfinished steps must have been loaded."""
        self.flow.ending, self.flow.reason = state, reason
        for step in self.steps.values():
            self._stop(step)

    def resume(self) -> None:
        """Continue a failed flow. All of its steps must have been loaded.

        Steps that have succeeded stay, except those that handle failures: they are decided again.
        """
        again = {step.number for step in self.steps.values() if _is_again(step)}
        self.flow.remaining, self.flow.failed = len(again), 0
        self.flow.ending, self.flow.reason = None, ""
        for step in self.steps.values():
            if step.number in again:
                step.state, step.reason = StepState.WAITING, ""
                step.waiting = step.unmet = step.failed = 0
                step.parts = step.remaining = step.missed = step.stopped = 0
        for step in self.steps.values():
            for behind in step.behind if step.number in again else ():
                self.steps[behind].waiting += 1
        for number in sorted(again):
            if self.steps[number].waiting == 0:
                self._decide(self.steps[number])

    def _is_stopped(self, step: StepFacts) -> bool:
        return self.flow.ending is not None or (self.flow.failed > 0 and not step.rescue)

    def _settle(self, step: StepFacts) -> None:
        if step.missed:
            self._fail(step, step.reason)
        elif step.stopped:
            self._end(step, StepState.CANCELLED)
        else:
            self._end(step, StepState.SUCCEEDED)

    def _fail(self, step: StepFacts, reason: str) -> None:
        step.reason = reason
        self.flow.failed += 1
        if self.flow.ending is None:
            self.flow.reason = self.flow.reason or f'step "{step.name}": {reason}'
            self.cancels_rest = self.cancels_rest or step.if_failed == "cancel"
        self._end(step, StepState.FAILED)

    def _end(self, step: StepFacts, state: StepState) -> None:
        step.state = state
        self.flow.remaining -= 1
        self._ended.append(step.number)

    def _tell(self, step: StepFacts, before: StepState) -> None:
        step.waiting -= 1
        step.unmet += before is not StepState.SUCCEEDED
        step.failed += before in (StepState.FAILED, StepState.CANCELLED)
        if step.waiting == 0 and step.state is StepState.WAITING:
            self._decide(step)

    def _decide(self, step: StepFacts) -> None:
        wanted = {
            "all_succeeded": step.unmet == 0,
            "any_failed": step.failed > 0,
            "all_done": True,
        }[step.when]
        if wanted:
            self.starting.append(step.number)
        elif step.failed and step.when == "all_succeeded":
            self._end(step, StepState.CANCELLED)
        else:
            self._end(step, StepState.SKIPPED)

    def _cancel_rest(self) -> None:
        self.cancels_rest = False
        for step in self.steps.values():
            if not step.rescue:
                self._stop(step)

    def _stop(self, step: StepFacts) -> None:
        if step.state is StepState.RUNNING:
            self.stopping.append(step.number)
        elif step.state is StepState.WAITING:
            if step.number in self.starting:
                self.starting.remove(step.number)
            self._end(step, StepState.CANCELLED)


def _is_again(step: StepFacts) -> bool:
    return step.rescue or step.state is not StepState.SUCCEEDED
