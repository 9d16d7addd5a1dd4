"""Flows: functions that define steps and their order.

``@duly.flow`` runs the function once, with stand-ins for its arguments, and keeps the graph of
steps. Afterwards a flow is enqueued like a task.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    NoReturn,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from duly.app.task_options import FlowOptions
from duly.app.tasks import Enqueueable, Enqueuer
from duly.errors import InvalidValue
from duly.flow.graph import graph_of
from duly.flow.trace import Step, StepRequest, Trace, current_trace, tracing
from duly.model.event import check_event
from duly.model.flow import Awaited
from duly.model.policies import LONGEST
from duly.model.template import names_in
from duly.registry.definition import Definition, define
from duly.registry.flow_plan import WAIT, check_flow
from duly.registry.option_values import Duration, length_of, refuse_unknown

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Flow(Enqueueable[P, R_co]):
    """A graph of steps. It is enqueued like a task, and cannot be called."""

    if not TYPE_CHECKING:  # a type checker reports the call

        def __call__(self, *_: object, **__: object) -> NoReturn:
            raise InvalidValue(
                f"{self.name} is a flow, whose function runs only once, to define it: run the "
                f"flow with {self.name}.enqueue(…), and in another flow use {self.name}.step(…)"
            )


class FlowDecorator:
    """``@duly.flow``, and ``@duly.flow(timeout=…)``, which returns another decorator."""

    def __init__(self, enqueuer: Enqueuer, options: FlowOptions | None = None) -> None:
        self._enqueuer = enqueuer
        self._options: FlowOptions = options or {}

    @overload
    def __call__(self, function: Callable[P, Step[R]], /) -> Flow[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, None], /) -> Flow[P, None]: ...
    @overload
    def __call__(self, /, **options: Unpack[FlowOptions]) -> "FlowDecorator": ...
    def __call__(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[FlowOptions]
    ) -> Any:
        refuse_unknown(options, FlowOptions.__annotations__, who="a flow")
        chosen: FlowOptions = {**self._options, **options}
        if function is None:
            return FlowDecorator(self._enqueuer, chosen)
        definition = _defined(self._enqueuer, function, chosen)
        self._enqueuer.registry.add(definition)
        return Flow(self._enqueuer, definition, {})


def wait_for(event: str, *, key: str | None, timeout: Duration | None) -> Step[dict[str, Any]]:
    """Add a step that ends when the event happens; its result is the payload of the event."""
    trace = current_trace()
    if trace is None:
        raise InvalidValue(f'wait_for("{event}") is a step of a flow: call it inside @duly.flow')
    try:
        named = _named_in(key, trace)
        awaited = Awaited(
            check_event(event),
            key,
            None if timeout is None else length_of("timeout", timeout, longest=LONGEST),
        )
    except InvalidValue as error:
        raise InvalidValue(f'{trace.flow}: wait_for("{event}"): {error}') from None
    return trace.add(StepRequest(task=WAIT, given=named, awaited=awaited))


def _defined(enqueuer: Enqueuer, function: Callable[..., Any], options: FlowOptions) -> Definition:
    if isinstance(function, Enqueueable):
        raise InvalidValue(
            f"{function.name} is a {type(function).__name__} already: @duly.flow is for a "
            "function that calls task.step(…)"
        )
    definition = define(function, of_flow=True, **options)
    _refuse_running(definition)
    return _traced(enqueuer, definition)


def _traced(enqueuer: Enqueuer, declared: Definition) -> Definition:
    parameters = declared.signature.parameters
    trace = Trace(declared.name, owner=enqueuer.registry, parameters=parameters.names)
    with tracing(trace):
        returned = declared.function(**trace.arguments())
    definition = replace(declared, graph=graph_of(trace, returned))
    check_flow(enqueuer.registry, definition)
    return definition


def _refuse_running(definition: Definition) -> None:
    if definition.is_async:
        raise InvalidValue(
            f"{definition.name}: a flow must be a plain def: it names its steps, and awaits nothing"
        )
    extra = definition.signature.parameters.extra
    if extra is not None:
        raise InvalidValue(
            f"{definition.name}: **{extra}: the parameters of a flow must be named, so that steps "
            "can use them"
        )


def _named_in(key: str | None, trace: Trace) -> dict[str, object]:
    """Return the arguments of the flow that the key names."""
    there = trace.arguments()
    names = () if key is None else names_in(key)
    for name in names:
        if name not in there:
            has = ", ".join(there) or "none"
            raise InvalidValue(
                f'key="{key}": there is no parameter "{name}"; the flow has {has}, and a key is '
                "made of those"
            )
    return {name: there[name] for name in names}
