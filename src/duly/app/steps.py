"""Adding a task as a step to the flow that is being defined."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from duly.app.task_options import JobOptions
from duly.errors import InvalidValue
from duly.flow.trace import Step, StepRequest, Trace, current_trace
from duly.registry.definition import Definition
from duly.registry.option_values import start_of
from duly.registry.parameters import Parameters
from duly.registry.registry import Registry

Q = ParamSpec("Q")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

_ONE_OF_ITS_FLOW: Final = "steps have no key; give the flow one: {flow}.using({word}=…)"
_REFUSED: Final = {
    "key": _ONE_OF_ITS_FLOW,
    "if_exists": _ONE_OF_ITS_FLOW,
    "idempotency_key": "steps exist once per run; set it for the flow: {flow}.using({word}=…)",
    "connection": "steps are written later; set it for the flow: {flow}.using({word}=…)",
}


class Mappable(Protocol[T_contra, Q, R_co]):
    """A task whose first parameter takes an item; a protocol, so that mypy infers its type."""

    def step(self, item: T_contra, /, *args: Q.args, **kwargs: Q.kwargs) -> Step[R_co]: ...


def step_of(
    registry: Registry,
    definition: Definition,
    using: JobOptions,
    *,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    maps: bool = False,
) -> Step[Any]:
    """Add a step. With ``maps`` the first argument is a list, and the task runs for each item."""
    task, trace = definition.name, current_trace()
    if trace is None:
        verb = "map" if maps else "step"
        raise InvalidValue(
            f"{task}.{verb}(…) only works inside @duly.flow; to run the task: {task}.enqueue(…)"
        )
    if task == trace.flow:
        raise InvalidValue(f"{task}: it contains itself as a step, and would never end")
    try:
        _refuse_another_app(registry, trace)
        choices = _choices(using, trace.flow)
        parameters = definition.signature.parameters
        over = _first(parameters) if maps else None
        given = parameters.bound(args, kwargs)
    except InvalidValue as error:
        raise InvalidValue(f"{trace.flow}: step {task}: {error}") from None
    return trace.add(StepRequest(task=task, given=given, using=choices, over=over))


def _refuse_another_app(registry: Registry, trace: Trace) -> None:
    if trace.owner is not registry:
        raise InvalidValue(
            "the task belongs to another app: a flow and its steps must belong to one Duly()"
        )


def _first(parameters: Parameters) -> str:
    if not parameters.positional:
        raise InvalidValue(
            f"map() passes each item as the first parameter; the task is {parameters}"
        )
    return parameters.positional[0]


def _choices(using: JobOptions, flow: str) -> dict[str, object]:
    """Return the options of a step; refuse options that make no sense inside a flow."""
    for word, why in _REFUSED.items():
        if word in using:
            raise InvalidValue(f"using({word}=…): {why.format(flow=flow, word=word)}")
    if isinstance(start_of("run_after", using.get("run_after")), datetime):
        raise InvalidValue(
            "using(run_after=…): a fixed time would be the same for every run of the flow: give a "
            'delay after the previous steps, as run_after="5m"'
        )
    return {
        word: value for word, value in using.items() if not (word == "tenant" and value is None)
    }
