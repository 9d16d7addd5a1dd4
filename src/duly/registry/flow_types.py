"""What the steps of a flow give each other, by their annotations.

Stand-ins have no values yet, but their types are known: that of a step is what its task returns,
a list of those if it goes over one, and that of an argument is what the flow's function says.
"""

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from duly.errors import InvalidValue
from duly.flow.graph import Graph, GraphStep
from duly.flow.places import shown_path
from duly.model.flow import Source
from duly.registry.annotations import RETURN
from duly.registry.definition import Definition
from duly.registry.fits import fits, inside, is_list, items_fit, takes_none

_MODULES: Final = re.compile(r"[\w.<>]+\.(?=\w)")


class Known(Protocol):
    def get(self, name: str) -> Definition: ...


class FlowTypes:
    def __init__(self, tasks: Known, flow: Definition, graph: Graph) -> None:
        self._tasks = tasks
        self._flow = flow
        self._graph = graph

    def check(self, step: GraphStep) -> None:
        """What it takes from others exists, and may be of the type that its task wants."""
        for fill in step.fills:
            self._check_kept(fill.source)
            wanted = self._wanted(step, *fill.path)
            self._check_there(step, fill.source, wanted, shown_path(fill.path))
            given = self._given(fill.source)
            if not fits(given, wanted):
                raise InvalidValue(
                    f"`{shown_path(fill.path)}` is {_shown(wanted)}, and "
                    f"{self._spoken(fill.source)} is {_shown(given)}"
                )
        if step.over is not None:
            self._check_over(step, step.over)

    def check_result(self) -> None:
        """What the flow says that it returns is what it returns."""
        said = self._flow.signature.parameters.annotations[RETURN]
        result = self._graph.result
        if result is None:
            if "Step" in _shown(said):
                raise InvalidValue(
                    f"{self._flow.name}: it says that it returns {_shown(said)}, and returns "
                    "nothing: return the step, or say -> None"
                )
            return
        wanted = (self._flow.signature.hints_if_known or {}).get(RETURN, Any)
        given = self._given(Source(step=result))
        if not fits(given, wanted):
            raise InvalidValue(
                f"{self._flow.name}: its result is {_shown(wanted)}, and "
                f"{self._spoken(Source(step=result))} is {_shown(given)}"
            )

    def _check_over(self, step: GraphStep, source: Source) -> None:
        self._check_kept(source)
        given = self._given(source)
        if source.step is not None and step.when != "all_succeeded":
            raise InvalidValue(
                f"it runs also when {self._graph.steps[source.step].name} has failed, and then "
                "there is no list to go over: write a task that takes it all"
            )
        if not is_list(given):
            raise InvalidValue(
                f"it goes over {self._spoken(source)}, which is {_shown(given)}, and no list"
            )
        wanted = self._wanted(step, str(step.asked.over))
        if not items_fit(given, wanted):
            raise InvalidValue(
                f"`{step.asked.over}` is {_shown(wanted)}, and {self._spoken(source)}, which it "
                f"goes over, is {_shown(given)}"
            )

    def _check_kept(self, source: Source) -> None:
        step = None if source.step is None else self._graph.steps[source.step]
        if step is None or step.asked.awaited is not None:
            return
        if self._tasks.get(step.asked.task).keep_result is None:
            raise InvalidValue(
                f"there is no result of step {step.name}: {step.asked.task} says keep_result=None"
            )

    def _check_there(self, step: GraphStep, source: Source, wanted: Any, where: str) -> None:  # noqa: ANN401 - a type
        if source.step is None or step.when == "all_succeeded" or takes_none(wanted):
            return
        raise InvalidValue(
            f"it runs also when {self._graph.steps[source.step].name} has failed, and then there "
            f"is no result: let {where} be `{_shown(wanted)} | None`"
        )

    def _given(self, source: Source) -> Any:  # noqa: ANN401 - a type, as annotations have them
        """The type of what comes from there; any, if that is not known yet."""
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
