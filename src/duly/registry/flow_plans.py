"""From a flow as it was declared to the plan that a worker opens it with.

A step asks for a task as any caller does, except that some of its arguments are known only later.
So it is checked as a caller is, and what is not there yet by its type. All of that happens when
the flow is declared; what needs a type that is defined further down, when it is first needed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from duly.errors import InvalidValue
from duly.flow.graph import Graph, GraphStep
from duly.flow.places import emptied
from duly.model.flow import MOST_PARTS, FlowPlan, Over, StepPlan
from duly.model.job import Call
from duly.model.limit import Lane
from duly.model.payload import EMPTY, Json
from duly.model.template import names_in
from duly.registry.codecs import ENCODER
from duly.registry.definition import Definition
from duly.registry.flow_types import FlowTypes
from duly.registry.signature import Signature

WAIT: Final = "wait"  # the task of a step that waits for an event; nothing runs it


class Tasks(Protocol):
    """Those that a flow may ask for."""

    def get(self, name: str) -> Definition: ...

    @property
    def call(self) -> Callable[..., Call]: ...


def check_flow(tasks: Tasks, flow: Definition) -> None:
    """Refuse what is known to be wrong by now."""
    graph = _graph(flow)
    types = FlowTypes(tasks, flow, graph)
    types.check_result()
    if flow.signature.hints_if_known is not None:
        flow.signature.check_defaults()
    for step in graph.steps:
        try:
            types.check(step)
            if step.asked.awaited is None:
                _check(tasks, step)
        except InvalidValue as error:
            raise _at(flow, step, error) from None


def plan_flow(tasks: Tasks, flow: Definition) -> FlowPlan:
    """All of it, or an ``InvalidValue`` that names the flow, the step and the parameter."""
    graph = _graph(flow)
    _read_types(tasks, flow, graph)
    check_flow(tasks, flow)
    return FlowPlan(
        steps=tuple(_planned(tasks, flow, step) for step in graph.steps),
        result=graph.result,
        defaults=Json(ENCODER.encode(flow.signature.parameters.defaults).decode()),
    )


def _graph(flow: Definition) -> Graph:
    if flow.graph is None:
        raise InvalidValue(f"{flow.name} is a task, and no flow")
    return flow.graph


def _read_types(tasks: Tasks, flow: Definition, graph: Graph) -> None:
    """By now they are all defined, or never will be."""
    names = {step.asked.task for step in graph.steps if step.asked.awaited is None}
    for signature in (flow.signature, *(tasks.get(name).signature for name in sorted(names))):
        _ = signature.hints


def _check(tasks: Tasks, step: GraphStep) -> None:
    """What it asks for, without the callbacks of its task: those may be declared further down."""
    task = tasks.get(step.asked.task)
    named = f"{task.name} as {step.name}"  # what is remembered for the name is not for the task
    bare = replace(task, name=named, on_success=None, on_failure=None, on_cancelled=None)
    _without_arguments(tasks, bare, step)
    if task.signature.hints_if_known is not None:
        _arguments(step, task)
        _over(step, task)


def _planned(tasks: Tasks, flow: Definition, step: GraphStep) -> StepPlan:
    asked = step.asked
    common: dict[str, Any] = {
        "name": step.name,
        "fills": step.fills,
        "before": step.before,
        "when": step.when,
        "if_failed": step.if_failed,
        "rescue": step.rescue,
        "wanted": step.wanted,
    }
    if asked.awaited is not None:
        args = Json(ENCODER.encode(dict.fromkeys(asked.given)).decode())
        return StepPlan(call=Call(task=WAIT, args=args), awaited=asked.awaited, **common)
    try:
        task = tasks.get(asked.task)
        call = replace(_without_arguments(tasks, task, step), args=_arguments(step, task))
        return StepPlan(call=call, over=_over(step, task), defaults=_defaults(task), **common)
    except InvalidValue as error:
        raise _at(flow, step, error) from None


def _without_arguments(tasks: Tasks, task: Definition, step: GraphStep) -> Call:
    """What is said about its job, its title and its limits as the templates that they are."""
    bare = replace(task, signature=_TAKES_NOTHING, title="", limits=(), graph=None)
    call = tasks.call(bare, (), {}, **step.asked.using)
    title = call.title.replace("{", "{{").replace("}", "}}") or task.title
    lanes = tuple(
        Lane(
            name=limit.name,
            template=limit.name,
            concurrency=limit.concurrency,
            rate=limit.rate,
        )
        for limit in task.limits
    )
    return replace(call, title=title, limits=lanes)


def _arguments(step: GraphStep, task: Definition) -> Json:
    later = {str(fill.path[0]) for fill in step.fills}
    given = {
        name: emptied(value) if name in later else value for name, value in step.asked.given.items()
    }
    if step.asked.over is not None:
        given[step.asked.over] = None
        later.add(step.asked.over)
    return task.signature.encode_known(given, later=later)


def _over(step: GraphStep, task: Definition) -> Over | None:
    argument = step.asked.over
    if argument is None:
        return None
    if step.over is not None:
        return Over(argument, step.over)
    items = step.asked.given[argument]
    if isinstance(items, str) or not isinstance(items, list | tuple):
        raise InvalidValue(f"it goes over {items!r}: a list, or the result of a step that is one")
    if len(items) > MOST_PARTS:
        raise InvalidValue(
            f"it goes over {len(items):,} items, and a step has at most {MOST_PARTS:,} parts"
        )
    return Over(argument, None, task.signature.encode_items(argument, [*items]))


def _defaults(task: Definition) -> Json:
    """Of the parameters that its title and its limits name."""
    known = task.signature.parameters.defaults
    templates = (task.title, *(limit.name for limit in task.limits))
    named = {name for template in templates for name in names_in(template) if name in known}
    if not named:
        return EMPTY
    try:
        return Json(ENCODER.encode({name: known[name] for name in sorted(named)}).decode())
    except Exception as error:  # noqa: BLE001 - codecs and properties of others run here
        raise InvalidValue(f"a default that its title or a limit names: {error}") from None


def _at(flow: Definition, step: GraphStep, error: InvalidValue) -> InvalidValue:
    why = str(error).removeprefix(f"{step.asked.task}: ")
    return InvalidValue(f"{flow.name}: step {step.name}: {why}")


def _nothing() -> None: ...


_TAKES_NOTHING: Final = Signature.of(_nothing, takes_context=False)
