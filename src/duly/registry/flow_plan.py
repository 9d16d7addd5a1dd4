"""Checking and planning a flow: from its declared graph to the plan that a worker opens.

A step calls a task as any caller does, except that some arguments are known only later. Known
arguments are checked by value, later ones by the types of their sources: the return type of a task
(a list of it for a mapped step), or the type of a flow parameter. The checks run when the flow is
declared; those that need a type which is defined further down run at first use.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from duly.errors import InvalidValue
from duly.flow.graph import Graph, GraphStep
from duly.flow.stand_in import emptied, shown_path
from duly.model.flow import MOST_PARTS, FlowPlan, Over, Source, StepPlan
from duly.model.job import JobRequest
from duly.model.payload import EMPTY, Json
from duly.model.template import names_in
from duly.registry.annotations import RETURN, fits, inside, is_list, items_fit, takes_none
from duly.registry.codecs import ENCODER
from duly.registry.definition import Definition
from duly.registry.signature import Signature

WAIT: Final = "wait"  # the task of a step that waits for an event; nothing runs it

_MODULES: Final = re.compile(r"[\w.<>]+\.(?=\w)")


class Tasks(Protocol):
    """The tasks that a flow may use."""

    def get(self, name: str) -> Definition: ...

    @property
    def call(self) -> Callable[..., JobRequest]: ...


def check_flow(tasks: Tasks, flow: Definition) -> None:
    """Refuse a flow as far as its types are known by now."""
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
    """Return the plan; raise ``InvalidValue`` that names the flow, the step and the parameter."""
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
        raise InvalidValue(f"{flow.name} is a task, not a flow")
    return flow.graph


def _read_types(tasks: Tasks, flow: Definition, graph: Graph) -> None:
    """Resolve all annotations, or raise: by now every type must be defined."""
    names = {step.asked.task for step in graph.steps if step.asked.awaited is None}
    for signature in (flow.signature, *(tasks.get(name).signature for name in sorted(names))):
        _ = signature.hints


def _check(tasks: Tasks, step: GraphStep) -> None:
    """Check the call of a step without callbacks, which may be declared further down."""
    task = tasks.get(step.asked.task)
    named = f"{task.name} as {step.name}"  # so that cached terms of the task are not used
    bare = replace(task, name=named, on_success=None, on_failure=None, on_cancelled=None)
    call_without_arguments(tasks, bare, step.asked.using)
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
        return StepPlan(call=JobRequest(task=WAIT, args=args), awaited=asked.awaited, **common)
    try:
        task = tasks.get(asked.task)
        bare = call_without_arguments(tasks, task, asked.using)
        call = replace(bare, args=_arguments(step, task))
        return StepPlan(call=call, over=_over(step, task), defaults=_defaults(task), **common)
    except InvalidValue as error:
        raise _at(flow, step, error) from None


def call_without_arguments(
    tasks: Tasks, task: Definition, options: Mapping[str, Any]
) -> JobRequest:
    """Return a call whose arguments come later; its title and limits are still templates."""
    bare = replace(task, signature=_TAKES_NOTHING, title="", limits=(), graph=None)
    call = tasks.call(bare, (), {}, **options)
    title = call.title.replace("{", "{{").replace("}", "}}") or task.title
    return replace(call, title=title, limits=tuple(limit.unrendered for limit in task.limits))


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
        raise InvalidValue(
            f"it maps over {items!r}: expected a list, or the result of a step that returns a list"
        )
    if len(items) > MOST_PARTS:
        raise InvalidValue(
            f"it maps over {len(items):,} items: a step can have at most {MOST_PARTS:,}"
        )
    return Over(argument, None, task.signature.encode_items(argument, [*items]))


def _defaults(task: Definition) -> Json:
    """Return the defaults of the parameters that the title and the limits name."""
    known = task.signature.parameters.defaults
    templates = (task.title, *(limit.name for limit in task.limits))
    named = {name for template in templates for name in names_in(template) if name in known}
    if not named:
        return EMPTY
    try:
        return Json(ENCODER.encode({name: known[name] for name in sorted(named)}).decode())
    except Exception as error:  # noqa: BLE001 - codecs and properties of others run here
        raise InvalidValue(f"a default value that its title or a limit uses: {error}") from None


def _at(flow: Definition, step: GraphStep, error: InvalidValue) -> InvalidValue:
    why = str(error).removeprefix(f"{step.asked.task}: ")
    return InvalidValue(f"{flow.name}: step {step.name}: {why}")


def _nothing() -> None: ...


_TAKES_NOTHING: Final = Signature.of(_nothing, takes_context=False)


class FlowTypes:
    def __init__(self, tasks: Tasks, flow: Definition, graph: Graph) -> None:
        self._tasks = tasks
        self._flow = flow
        self._graph = graph

    def check(self, step: GraphStep) -> None:
        """Check that the results that a step takes exist and have compatible types."""
        for fill in step.fills:
            self._check_kept(fill.source)
            wanted = self._wanted(step, *fill.path)
            self._check_there(step, fill.source, wanted, shown_path(fill.path))
            given = self._given(fill.source)
            if not fits(given, wanted):
                raise InvalidValue(
                    f"`{shown_path(fill.path)}` is {_shown(wanted)}, but "
                    f"{self._spoken(fill.source)} is {_shown(given)}"
                )
        if step.over is not None:
            self._check_over(step, step.over)

    def check_result(self) -> None:
        """Check that the flow's return annotation fits the step that it returns."""
        said = self._flow.signature.parameters.annotations[RETURN]
        result = self._graph.result
        if result is None:
            if "Step" in _shown(said):
                raise InvalidValue(
                    f"{self._flow.name}: its return annotation is {_shown(said)}, but it returns "
                    "nothing: return the step, or write -> None"
                )
            return
        wanted = (self._flow.signature.hints_if_known or {}).get(RETURN, Any)
        given = self._given(Source(step=result))
        if not fits(given, wanted):
            raise InvalidValue(
                f"{self._flow.name}: its return annotation is {_shown(wanted)}, but "
                f"{self._spoken(Source(step=result))} is {_shown(given)}"
            )

    def _check_over(self, step: GraphStep, source: Source) -> None:
        self._check_kept(source)
        given = self._given(source)
        if source.step is not None and step.when != "all_succeeded":
            raise InvalidValue(
                f"it also runs when {self._graph.steps[source.step].name} has failed, and then "
                "there is no list to map over: write a task that takes the whole result"
            )
        if not is_list(given):
            raise InvalidValue(
                f"it maps over {self._spoken(source)}, which is {_shown(given)}, not a list"
            )
        wanted = self._wanted(step, str(step.asked.over))
        if not items_fit(given, wanted):
            raise InvalidValue(
                f"`{step.asked.over}` is {_shown(wanted)}, but it maps over "
                f"{self._spoken(source)}, which is {_shown(given)}"
            )

    def _check_kept(self, source: Source) -> None:
        step = None if source.step is None else self._graph.steps[source.step]
        if step is None or step.asked.awaited is not None:
            return
        if self._tasks.get(step.asked.task).keep_result is None:
            raise InvalidValue(
                f"step {step.name} has no result: {step.asked.task} is declared with "
                "keep_result=None"
            )

    def _check_there(self, step: GraphStep, source: Source, wanted: Any, where: str) -> None:  # noqa: ANN401 - a type
        if source.step is None or step.when == "all_succeeded" or takes_none(wanted):
            return
        raise InvalidValue(
            f"it also runs when {self._graph.steps[source.step].name} has failed, and then there "
            f"is no result: annotate {where} as `{_shown(wanted)} | None`"
        )

    def _given(self, source: Source) -> Any:  # noqa: ANN401 - a type, as annotations have them
        """Return the type of a source; Any if it is not known yet."""
        if source.step is None:
            return (self._flow.signature.hints_if_known or {}).get(source.argument, Any)
        asked = self._graph.steps[source.step].asked
        if asked.awaited is not None:
            return dict[str, Any]
        task = self._tasks.get(asked.task)
        found = (task.signature.hints_if_known or {}).get(RETURN, Any)
        if task.keep_result is None:
            found = None
        return found if asked.over is None else list[found]  # type: ignore[valid-type]

    def _wanted(self, step: GraphStep, argument: str | int, *rest: str | int) -> Any:  # noqa: ANN401 - a type, as annotations have them
        if step.asked.awaited is not None:
            return Any
        signature = self._tasks.get(step.asked.task).signature
        hints: Mapping[str, Any] = signature.hints_if_known or {}
        found = hints.get(str(argument), hints.get(str(signature.parameters.extra), Any))
        for at in rest:
            found = inside(found, at)
        return found

    def _spoken(self, source: Source) -> str:
        if source.step is None:
            return f"the flow's parameter {source.argument}"
        return f"the result of step {self._graph.steps[source.step].name}"


def _shown(hint: object) -> str:
    if hint is None or hint is type(None):
        return "None"
    return _MODULES.sub("", hint if isinstance(hint, str) else inspect.formatannotation(hint))
