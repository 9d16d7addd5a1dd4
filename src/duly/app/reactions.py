"""``@duly.on("invoice.paid")``: above a task or a flow stands what it reacts to.

It is a schedule whose rule is ``on invoice.paid``, declared, reconciled and kept as any other. What
differs is where the arguments come from: payload fields go to the parameters of the same name. So
nothing is bound when it is declared, and titles and limits stay the templates that they are.
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
    """What ``duly.schedule`` does with what it was told."""

    def declared(
        self,
        rule: On,
        call: object | None,
        *,
        name: str | None,
        aliases: Sequence[str],
        words: Mapping[str, Any],
        said: str,
    ) -> Any: ...  # noqa: ANN401 - a decorator, or nothing


class Reacting:
    """``duly.on``: a decorator, or with a task or a call, a declaration by itself."""

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
    def __call__(  # noqa: PLR0913 - the words of a reaction, by name
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
        """Run it when the event happens.

        ``key="doc:{doc_id}"``: of events about the same, the last one counts, while its job waits.
        ``debounce``: not before it has been quiet for so long. ``run_after``: so long later, or
        "-24h from starts_at", a moment in the event. ``unless``: an event that calls it off.
        """
        if not isinstance(event, str):
            raise InvalidValue('on() needs the name of an event: say @duly.on("invoice.paid")')
        rule = on(event, key=key, debounce=debounce, run_after=run_after, unless=unless)
        names_in(rule.key or "")  # what is wrong with it is said where it stands
        words: dict[str, Any] = {"start_within": start_within, "late": late}
        declared: Callable[[E], E] | None = self._scheduling.declared(
            rule, call, name=name, aliases=aliases, words=words, said="on"
        )
        return declared


def asked_by_events(what: Enqueueable[..., Any] | Call[Any]) -> model.Call:
    """What its jobs are, with the places that events fill."""
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
) -> model.Call:
    """The same of a task by its definition; what is ``given`` no event changes."""
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
    """Where a parameter comes from, and what it is where events may be silent about it."""
    parameters = definition.signature.parameters
    if name in parameters.required:
        return {FIELD: name}
    place = {FIELD: name, "optional": True}
    templates = (definition.title, *(limit.name for limit in definition.limits))
    named = any(name in names_in(template) for template in templates)
    if named or definition.graph is not None:  # whose steps take it, whoever gives it
        place["default"] = decode(Json(ENCODER.encode(parameters.defaults[name]).decode()))
    return place
