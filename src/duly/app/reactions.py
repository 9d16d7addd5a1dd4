"""``@duly.on("invoice.paid")``: tasks and flows that react to events.

A reaction is a schedule whose rule is ``on invoice.paid``. The fields of the event's payload become
the arguments of the same names. So no arguments are bound when it is declared, and titles and
limits stay templates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, overload

from duly.app.tasks import Call, Enqueueable
from duly.errors import InvalidValue
from duly.model import job as model
from duly.model.payload import Json, decode, encode
from duly.model.policies import Late
from duly.model.template import names_in
from duly.policy.reaction import FIELD, is_field
from duly.registry.codecs import ENCODER
from duly.registry.definition import Definition
from duly.registry.option_values import Duration
from duly.registry.registry import Registry
from duly.rules.event_rule import On, on

E = TypeVar("E", bound=Enqueueable[..., Any])


class Declares(Protocol):
    """Declares a schedule, as ``duly.schedule`` does."""

    def declared(
        self,
        rule: On,
        call: object | None,
        *,
        name: str | None,
        aliases: Sequence[str],
        words: Mapping[str, Any],
        decorator: str,
    ) -> Any: ...  # noqa: ANN401 - a decorator, or nothing


class Reacting:
    """``duly.on``: a decorator, or a declaration if it is given a task or a call."""

    def __init__(self, scheduling: Declares) -> None:
        self._scheduling = scheduling

    @overload
    def __call__(
        self,
        event: str,
        /,
        *,
        key: str | None = None,
        debounce: Duration | None = None,
        run_after: Duration | None = None,
        unless: str | None = None,
        name: str | None = None,
        aliases: Sequence[str] = (),
        start_within: Duration | None = None,
        late: Late = "skip",
    ) -> Callable[[E], E]: ...
    @overload
    def __call__(
        self,
        event: str,
        call: Enqueueable[..., Any] | Call[Any],
        /,
        *,
        key: str | None = None,
        debounce: Duration | None = None,
        run_after: Duration | None = None,
        unless: str | None = None,
        name: str | None = None,
        aliases: Sequence[str] = (),
        start_within: Duration | None = None,
        late: Late = "skip",
    ) -> None: ...
    def __call__(  # noqa: PLR0913 - all options of a reaction, by name
        self,
        event: object = None,
        call: Enqueueable[..., Any] | Call[Any] | None = None,
        /,
        *,
        key: str | None = None,
        debounce: Duration | None = None,
        run_after: Duration | None = None,
        unless: str | None = None,
        name: str | None = None,
        aliases: Sequence[str] = (),
        start_within: Duration | None = None,
        late: Late = "skip",
    ) -> Callable[[E], E] | None:
        """Run the task when the event happens.

        ``key="doc:{doc_id}"``: of events with the same key, the last one counts while its job
        waits. ``debounce``: wait until no event has happened for this long. ``run_after``: a delay,
        or "-24h from starts_at", relative to a field of the event. ``unless``: an event that
        cancels the reaction.
        """
        if not isinstance(event, str):
            raise InvalidValue('on() needs the name of an event: @duly.on("invoice.paid")')
        rule = on(event, key=key, debounce=debounce, run_after=run_after, unless=unless)
        names_in(rule.key or "")  # raises now if the template is wrong
        words: dict[str, Any] = {"start_within": start_within, "late": late}
        declared: Callable[[E], E] | None = self._scheduling.declared(
            rule, call, name=name, aliases=aliases, words=words, decorator="on"
        )
        return declared


def asked_by_events(what: Enqueueable[..., Any] | Call[Any]) -> model.JobRequest:
    """Return the call of a reaction; its arguments name the fields of the event."""
    given = decode(what.asked().args) if isinstance(what, Call) else {}
    using = {
        name: value
        for name, value in what._using.items()  # noqa: SLF001 - it is ours
        if name != "connection" and not (name == "tenant" and value is None)
    }
    return reaction_call(what._enqueuer.registry, what.definition, given, using)  # noqa: SLF001


def reaction_call(
    registry: Registry,
    definition: Definition,
    given: Mapping[str, Any],
    using: Mapping[str, Any],
) -> model.JobRequest:
    """Return the call of a reaction by its definition; events do not change ``given``."""
    call = registry.call_without_arguments(definition, **using)
    return replace(call, args=_arguments(definition, given))


def _arguments(definition: Definition, given: Mapping[str, Any]) -> Json:
    for name, value in given.items():
        if is_field(value):
            raise InvalidValue(
                f'{definition.name}: {name}={value!r}: "{FIELD}" stands for a field of an event'
            )
    parameters = definition.signature.parameters
    wanted = {name: _place(definition, name) for name in parameters.names if name not in given}
    return encode({**wanted, **given})


def _place(definition: Definition, name: str) -> dict[str, Any]:
    """Return the placeholder of a parameter, with its default if an event may lack the field."""
    parameters = definition.signature.parameters
    if name in parameters.required:
        return {FIELD: name}
    place = {FIELD: name, "optional": True}
    templates = (definition.title, *(limit.name for limit in definition.limits))
    named = any(name in names_in(template) for template in templates)
    if named or definition.graph is not None:  # the steps of a flow need a value
        place["default"] = decode(Json(ENCODER.encode(parameters.defaults[name]).decode()))
    return place
