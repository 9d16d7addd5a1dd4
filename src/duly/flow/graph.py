"""The graph of a flow, made from its trace: the steps in topological order.

The number of a step is larger than those of the steps that it waits for. Otherwise steps keep the
order in which they were written, so that a flow looks the same wherever it is shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from duly.errors import InvalidValue
from duly.flow.trace import Result, Step, StepRequest, TakenArgument, Trace, TracedStep, note_of
from duly.model.flow import Fill, Rest, Source, When

Numbers: TypeAlias = Mapping[TracedStep, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphStep:
    """A step of the graph; it refers to other steps by their numbers."""

    name: str
    asked: StepRequest
    fills: tuple[Fill, ...]
    over: Source | None  # the list of a mapped step, if it is known only later
    before: tuple[int, ...]
    when: When
    if_failed: Rest
    rescue: bool
    wanted: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    steps: tuple[GraphStep, ...]
    result: int | None  # the step whose result is the flow's


def graph_of(trace: Trace, returned: object) -> Graph:
    """Return the graph of a trace; raise ``InvalidValue`` if it is not a valid flow."""
    result = _returned(trace, returned)
    if not trace.notes:
        raise InvalidValue(f"{trace.flow}: it has no steps: call task.step(…) in it")
    names = _names(trace)
    order = _ordered(trace, names)
    numbers = {note: number for number, note in enumerate(order)}
    wanted = {each for note in order for each in _results(note)} | {result}
    steps: list[GraphStep] = []
    for note in order:
        before = tuple(sorted(numbers[each] for each in _before(note)))
        if note.when != "all_succeeded" and not before:
            raise InvalidValue(
                f'{trace.flow}: step {names[note]}: when("{note.when}") needs a step before it, '
                "and there is none: name one, as in load >> it"
            )
        steps.append(
            GraphStep(
                name=names[note],
                asked=note.asked,
                fills=_fills(note, numbers),
                over=_over(note, numbers),
                before=before,
                when=note.when,
                if_failed=note.if_failed,
                rescue=note.when != "all_succeeded" or any(steps[each].rescue for each in before),
                wanted=note in wanted,
            )
        )
    return Graph(steps=tuple(steps), result=None if result is None else numbers[result])


def _returned(trace: Trace, returned: object) -> TracedStep | None:
    if returned is None:
        return None
    if not isinstance(returned, Step):
        raise InvalidValue(
            f"{trace.flow}: it returns {returned!r}: a flow returns one of its steps, whose "
            "result becomes the result of the flow, or None"
        )
    note = note_of(returned)
    if note.trace is not trace:
        raise InvalidValue(
            f"{trace.flow}: it returns step {note.name} of {note.trace.flow}: a flow returns one "
            "of its own steps"
        )
    return note


def _names(trace: Trace) -> dict[TracedStep, str]:
    names = trace.names()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidValue(f'{trace.flow}: two steps are named "{twice}"')
    return dict(zip(trace.notes, names, strict=True))


def _ordered(trace: Trace, names: Mapping[TracedStep, str]) -> list[TracedStep]:
    """Sort the steps topologically; otherwise they keep the order in which they were written."""
    written = {note: number for number, note in enumerate(trace.notes)}
    waiting = {note: _before(note) for note in trace.notes}
    behind: dict[TracedStep, list[TracedStep]] = {note: [] for note in trace.notes}
    for note, before in waiting.items():
        for each in before:
            behind[each].append(note)
    ready = [written[note] for note, before in waiting.items() if not before]
    heapify(ready)
    order: list[TracedStep] = []
    while ready:
        note = trace.notes[heappop(ready)]
        order.append(note)
        for each in behind[note]:
            waiting[each].pop(note)
            if not waiting[each]:
                heappush(ready, written[each])
    if len(order) < len(trace.notes):
        way = " → ".join(names[note] for note in _circle(waiting, written))
        raise InvalidValue(f"{trace.flow}: its steps depend on each other in a cycle: {way}")
    return order


def _circle(
    waiting: Mapping[TracedStep, Iterable[TracedStep]], written: Numbers
) -> Sequence[TracedStep]:
    """Return a cycle in the direction of ``>>``, from the step that was written first."""
    note = next(note for note, before in waiting.items() if before)
    way: dict[TracedStep, None] = {}
    while note not in way:
        way[note] = None
        note = next(iter(waiting[note]))
    back = [*way]
    circle = back[back.index(note) :][::-1]
    first = circle.index(min(circle, key=lambda note: written[note]))
    return [*circle[first:], *circle[: first + 1]]


def _before(note: TracedStep) -> dict[TracedStep, None]:
    return dict.fromkeys(_results(note)) | note.after


def _results(note: TracedStep) -> list[TracedStep]:
    return [each.origin.note for each in note.takes if isinstance(each.origin, Result)]


def _fills(note: TracedStep, numbers: Numbers) -> tuple[Fill, ...]:
    return tuple(
        Fill(each.path, _source(each, numbers))
        for each in note.takes
        if each.path[0] != note.asked.over
    )


def _over(note: TracedStep, numbers: Numbers) -> Source | None:
    found = [each for each in note.takes if each.path[0] == note.asked.over]
    for each in found:
        if len(each.path) > 1:
            raise note.refusal(
                f"it maps over a list that contains {each.origin}: call {note.asked.task}.step(…) "
                "for each item, or write a task that returns the list"
            )
    return _source(found[0], numbers) if found else None


def _source(taken: TakenArgument, numbers: Numbers) -> Source:
    match taken.origin:
        case Result(note=note):
            return Source(step=numbers[note])
        case argument:
            return Source(argument=argument.name)
