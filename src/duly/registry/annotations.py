"""The types in the annotations of a function; a refusal names the parameter.

Annotations may be strings (``from __future__ import annotations``) and may name types that are
defined later: a ``NameError`` from here means "not yet".
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Final, NoReturn, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect as looking

from duly.errors import InvalidValue
from duly.flow.trace import Step
from duly.registry.codecs import WHAT_TO_DO, is_kept, read

RETURN: Final = "return"
# These types need no further check.
_KNOWN = (Any, object, int, str, float, bool, bytes, type(None))
_ANYTHING = (Any, object, dict, list, tuple)
_PLAIN = (*_ANYTHING, int, str, float, bool, type(None))
_PLAIN_ORIGINS = (dict, list, tuple, Union, UnionType, Annotated, Mapping, Sequence)


def resolved(function: Callable[..., object], annotations: Mapping[str, object]) -> dict[str, Any]:
    """Return the type of each annotation; Any where there is none."""
    given = {
        name: type(None) if annotation is NoReturn else annotation
        for name, annotation in annotations.items()
        if annotation is not inspect.Parameter.empty
    }
    scope = getattr(plain(function), "__globals__", {})
    found = get_type_hints(SimpleNamespace(__annotations__=given), scope, include_extras=True)
    return {name: found.get(name, Any) for name in annotations}


def plain(function: Callable[..., object]) -> Any:  # noqa: ANN401 - a function or a callable object
    """Return the innermost function, without wrappers and partials."""
    inner = inspect.unwrap(function)
    if isinstance(inner, partial):
        return plain(inner.func)
    if not inspect.isroutine(inner):
        return plain(type(inner).__call__) if hasattr(type(inner), "__call__") else inner  # noqa: B004
    return inspect.unwrap(getattr(inner, "__func__", inner))


def refuse_unkept(hints: Mapping[str, Any], *, task: str) -> None:
    """Refuse types that cannot be written as JSON and read back; name the first."""
    for name, hint in hints.items():
        if hint in _KNOWN:
            continue
        try:
            msgspec.json.Decoder(hint, dec_hook=read)
            unknown = [kind for kind in _custom_types(hint) if not is_kept(kind)]
        except TypeError as error:
            raise InvalidValue(f"{task}: {_spoken(name)}: {_why(error)}") from None
        if unknown:
            raise InvalidValue(
                f"{task}: {_spoken(name)}: {unknown[0].__name__} cannot be written as JSON: "
                f"{WHAT_TO_DO}"
            )


def result_of_step(hint: Any, *, flow: str) -> Any:  # noqa: ANN401 - types, as annotations have them
    """Return ``Report`` for a flow annotated with ``-> Step[Report]``."""
    if hint in (Any, None, type(None)):
        return hint
    if hint is Step:
        return Any
    if get_origin(hint) is not Step:
        shown = inspect.formatannotation(hint)
        raise InvalidValue(
            f"{flow}: its return annotation is {shown}, but a flow returns one of its steps or "
            f"None: write -> Step[{shown}]"
        )
    return get_args(hint)[0]


def may_hold_anything(hint: object) -> bool:
    """Return whether the type accepts any value, so that only plain JSON is read back unchanged."""
    leaves = [*_leaves(hint)]
    return any(leaf in _ANYTHING for leaf in leaves) and all(leaf in _PLAIN for leaf in leaves)


def described(hint: object) -> str:
    """Describe a type down to the fields of its dataclasses: equal texts accept equal JSON."""
    return _described(looking.type_info(hint), set())


def _leaves(hint: object) -> Iterator[object]:
    inside = get_args(hint)
    if not inside or get_origin(hint) not in _PLAIN_ORIGINS:
        yield hint
        return
    for inner in inside[:1] if get_origin(hint) is Annotated else inside:
        if inner is not ...:
            yield from _leaves(inner)


def _spoken(name: str) -> str:
    return "its result" if name == RETURN else f"parameter `{name}`"


def _why(error: TypeError) -> str:
    why, _, shown = str(error).partition(" - type ")
    asked = shown.removesuffix(" is not supported") or "its type"
    hint = ""
    if "str-like" in why:
        why = "more than one of its types is a string in JSON"
        hint = "; choose one of them"
    elif "dataclass" in why or "Struct" in why:
        hint = "; give them tags (msgspec.Struct with tag=True), or use a pydantic model"
    return f"{asked} is ambiguous when it is decoded: {why[:1].lower()}{why[1:]}{hint}"


def _custom_types(hint: object) -> Iterator[type]:
    stack: list[object] = [looking.type_info(hint)]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if isinstance(node, looking.CustomType):
            yield node.cls
        elif isinstance(node, tuple):
            stack.extend(node)
        elif isinstance(node, looking.Type | looking.Field) and id(node) not in seen:
            seen.add(id(node))
            stack.extend(getattr(node, part) for part in node.__struct_fields__)


def _described(node: object, seen: set[int]) -> str:
    match node:
        case looking.Field():
            need = "" if node.required else "?"
            return f"{node.encode_name}{need}:{_described(node.type, seen)}"
        case looking.Type():
            return _described_type(node, seen)
        case tuple():
            return ",".join(_described(inner, seen) for inner in node)
        case _:
            return repr(node)


def _described_type(node: looking.Type, seen: set[int]) -> str:
    kind = getattr(node, "cls", None)
    name = type(node).__name__ if kind is None else kind.__qualname__
    if id(node) in seen:
        return name
    seen.add(id(node))
    if isinstance(node, looking.EnumType):
        return f"{name}({[member.value for member in node.cls]})"
    parts = [
        _described(value, seen)
        for part in node.__struct_fields__
        if part != "cls" and (value := getattr(node, part)) is not None
    ]
    return f"{name}({';'.join(parts)})"
