"""Form fields for the arguments of a task, derived from the types of its parameters."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from duly.policy.redaction import HIDDEN, hidden_json
from duly.registry.annotations import resolved
from duly.registry.codecs import ENCODER
from duly.registry.definition import Definition
from duly.registry.parameters import Parameters

Kind: TypeAlias = Literal["text", "number", "checkbox", "select", "date", "json"]
_NUMBERS: Final = (int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    name: str
    kind: Kind
    required: bool
    value: str = ""  # as the user would type it
    choices: Sequence[tuple[str, str]] = ()  # of a select: JSON value and label
    step: str = "1"  # of a number
    none: bool = False  # an empty field means None, not the default

    @property
    def is_json(self) -> bool:
        """True if the field's text is parsed as JSON."""
        return self.kind in ("number", "select", "json")


def fields_of(definition: Definition, args: str) -> list[FormField]:
    """Return a field for each parameter, filled with the argument or else the default.

    A secret is shown as ``***``, which stands for its value if it is not changed.
    """
    parameters = definition.signature.parameters
    types = _types(parameters)
    shown: dict[str, object] = json.loads(hidden_json(definition.name, args))
    fields = []
    for name in parameters.names:
        known, value = _value(name, shown, parameters.defaults)
        fields.append(
            _field(
                name,
                types.get(name, Any),
                value=value,
                known=known,
                required=name in parameters.required,
            )
        )
    return fields


def _types(parameters: Parameters) -> Mapping[str, Any]:
    """Return the types; empty if one cannot be resolved, and then all fields take JSON."""
    try:
        return resolved(parameters.function, parameters.annotations)
    except NameError:
        return {}


def _value(
    name: str, given: Mapping[str, object], defaults: Mapping[str, object]
) -> tuple[bool, object]:
    if name in given:
        return True, given[name]
    if name not in defaults:
        return False, None
    try:
        return True, json.loads(ENCODER.encode(defaults[name]))
    except Exception:  # noqa: BLE001 - a default of any type, which need not have a form in JSON
        return False, None


def _field(
    name: str,
    hint: Any,  # noqa: ANN401 - a type, as annotations have
    *,
    value: object,
    known: bool,
    required: bool,
) -> FormField:
    hint, optional = _plain(hint)
    kind, choices = _kind(hint)
    if kind == "text" and known and not isinstance(value, str | NoneType):
        kind = "json"
    if value == HIDDEN:
        kind = "text"
    return FormField(
        name=name,
        kind=kind,
        required=required and not optional and kind != "checkbox",
        value=_typed(value, kind) if known else "",
        choices=choices,
        step="any" if hint is float else "1",
        none=optional and required,
    )


def _plain(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a type, as annotations have
    """Return the type without Annotated and Optional, and whether it may be None."""
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    inside = [one for one in get_args(hint) if one is not NoneType]
    if len(inside) == len(get_args(hint)):
        return hint, False
    return (inside[0], True) if len(inside) == 1 else (hint, True)


def _kind(hint: Any) -> tuple[Kind, Sequence[tuple[str, str]]]:  # noqa: ANN401, PLR0911 - a type in, a kind out
    if get_origin(hint) is Literal:
        return "select", [(json.dumps(one), str(one)) for one in get_args(hint)]
    if hint is bool:
        return "checkbox", ()
    if hint in _NUMBERS:
        return "number", ()
    if hint is str:
        return "text", ()
    if hint is date:
        return "date", ()
    if hint is datetime:
        return "text", ()
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "select", [(json.dumps(one.value), one.name.lower()) for one in hint]
    return "json", ()


def _typed(value: object, kind: Kind) -> str:
    match kind:
        case "text" | "date":
            return "" if value is None else str(value)
        case "checkbox":
            return "true" if value else ""
        case "select":
            return json.dumps(value)
        case "number" | "json":
            return "" if value is None else json.dumps(value, ensure_ascii=False)
