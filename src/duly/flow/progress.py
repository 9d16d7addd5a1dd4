"""How a flow goes on when something of it has ended: a decision about counters, and nothing else.

Whoever holds the flow brings the steps that are concerned, one ring after the other: what has
ended, then what waits for it. A step that reaches nought starts, or ends without having run, and is
then the next ring. So an end costs as much as there are steps behind it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from duly.model.flow import Rest, StepState, When
from duly.model.states import State

OVER = (StepState.SUCCEEDED, StepState.FAILED, StepState.CANCELLED, StepState.SKIPPED)


@dataclass(slots=True, kw_only=True)
class StepFacts:
    """A step as it is counted."""

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
    missed: int = 0  # … that have ended and not succeeded by themselves
    stopped: int = 0  # … that were cancelled with the rest
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.state in OVER


@dataclass(slots=True, kw_only=True)
class FlowFacts:
    remaining: int  # steps that have not ended
    failed: int  # steps that have failed
    ending: State | None = None  # what it becomes when nothing of it runs any more …
    reason: str = ""  # … and why; or what failed first


@dataclass(slots=True)
class Course:
    """What follows, collected while the rings are brought."""

    flow: FlowFacts
    steps: dict[int, StepFacts] = field(default_factory=dict)
    starting: list[int] = field(default_factory=list)  # to be made into jobs
    stopping: list[int] = field(default_factory=list)  # whose jobs are asked to end
    cancels_rest: bool = False  # every step that is not over has to be brought
    _ended: list[int] = field(default_factory=list)  # those behind them have not been told
    _brought: dict[int, StepFacts] = field(default_factory=dict)  # as they were then

    def bring(self, steps: Iterable[StepFacts]) -> None:
        """What is known already is newer."""
        for step in steps:
            if step.number not in self.steps:
                self.steps[step.number] = step
                self._brought[step.number] = replace(step)

    @property
    def changed(self) -> list[StepFacts]:
        """The steps that are not as they were brought."""
        return [step for number, step in self.steps.items() if step != self._brought[number]]

    @property
    def unknown(self) -> list[int]:
        """The steps that have to be brought before it goes on."""
        wanted = {n for number in self._ended for n in self.steps[number].behind}
        return sorted(wanted - self.steps.keys())

    @property
    def is_under_way(self) -> bool:
        return bool(self._ended) or self.cancels_rest

    @property
    def is_over(self) -> bool:
        return self.flow.remaining == 0

    def started(self, number: int, parts: int, remaining: int) -> None:
        """A step was made into so many jobs, of which so many are to be done. Of none, it is."""
        step = self.steps[number]
        step.state, step.parts, step.remaining = StepState.RUNNING, parts, remaining
        if not remaining:
            self._end(step, StepState.SUCCEEDED)

    def refused(self, number: int, reason: str) -> None:
        """A step could not be made into jobs."""
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
                self.stopping.append(step.number)  # the other parts need not be done
        if step.remaining == 0:
            self._settle(step)

    def go_on(self) -> None:
        """Tell those behind what has ended. All that is ``unknown`` has been brought."""
        if self.cancels_rest:
            self._cancel_rest()
        ended, self._ended = self._ended, []
        for number in ended:
            step = self.steps[number]
            for behind in step.behind:
                self._tell(self.steps[behind], step.state)

    def stop(self, state: State, reason: str) -> None:
        """End all of it, what is there for failures too. Every step that is not over is here."""
        self.flow.ending, self.flow.reason = state, reason
        for step in self.steps.values():
            self._stop(step)

    def resume(self) -> None:
        """Go on with a flow that had failed: all of its steps are here.

        What has succeeded stays, except for what is there for failures: whether that is wanted
        is asked anew.
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
