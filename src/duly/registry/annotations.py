"""The types in the annotations of a function; a refusal names the parameter.

Annotations may be strings (``from __future__ import annotations``) and may name types that are
defined later: a ``NameError`` from here means "not yet".
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NoReturn,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

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


Node: TypeAlias = looking.Type
Hint: TypeAlias = Any

_DEEP_ENOUGH: Final = 20  # types may be recursive
_LISTS: Final = (
    looking.ListType,
    looking.SetType,
    looking.FrozenSetType,
    looking.VarTupleType,
    looking.CollectionType,
)
_ARRAYS: Final = (*_LISTS, looking.TupleType, looking.NamedTupleType)
_RECORDS: Final = (looking.DataclassType, looking.StructType, looking.TypedDictType)
# Types that are texts in JSON and compatible only with themselves.
_STRICT_TEXTS: Final = (
    looking.DateTimeType,
    looking.DateType,
    looking.TimeType,
    looking.TimeDeltaType,
    looking.UUIDType,
)
_KINDS: Final[dict[type[Node], frozenset[str]]] = {
    looking.NoneType: frozenset({"null"}),
    looking.BoolType: frozenset({"bool"}),
    looking.IntType: frozenset({"int"}),
    looking.FloatType: frozenset({"float"}),
    looking.StrType: frozenset({"text"}),
    looking.BytesType: frozenset({"text"}),
    looking.ByteArrayType: frozenset({"text"}),
    looking.MemoryViewType: frozenset({"text"}),
    looking.DecimalType: frozenset({"text"}),
    looking.DictType: frozenset({"object"}),
    **dict.fromkeys(_STRICT_TEXTS, frozenset({"text"})),
    **dict.fromkeys(_ARRAYS, frozenset({"array"})),
    **dict.fromkeys(_RECORDS, frozenset({"object"})),
}
_ALSO_READ: Final[dict[type[Node], frozenset[str]]] = {
    looking.FloatType: frozenset({"int"}),
    looking.DecimalType: frozenset({"int", "float"}),
    looking.TimeDeltaType: frozenset({"int", "float"}),
}
_SCALARS: Final = {str: "text", int: "int", float: "float", bool: "bool", type(None): "null"}


def fits(given: Hint, wanted: Hint) -> bool:
    """Return whether a value of one type may be read as the other."""
    return _compared(given, wanted, lambda one, other: _fits(one, other, 0))


def items_fit(given: Hint, wanted: Hint) -> bool:
    """Return whether the items of a list type may be read as the other type."""

    def compare(lists: Node, other: Node) -> bool:
        return any(_fits(item, other, 0) for item in _items(lists))

    return _compared(given, wanted, compare)


def is_list(hint: Hint) -> bool:
    """Return whether a value of the type may be a list."""
    return fits(hint, list[Any])


def takes_none(hint: Hint) -> bool:
    return fits(None, hint)


def inside(hint: Hint, at: str | int) -> Hint:
    """Return the item type of a list or dict; Any if it is not annotated."""
    origin: object = get_origin(hint)
    arguments = get_args(hint)
    if origin is list and isinstance(at, int):
        return arguments[0]
    if origin is dict and isinstance(at, str):
        return arguments[1]
    return Any


def _compared(given: Hint, wanted: Hint, compare: Callable[[Node, Node], bool]) -> bool:
    try:
        one, other = looking.type_info(given), looking.type_info(wanted)
    except Exception:  # noqa: BLE001 - user types may raise anything, and the check is optional
        return True
    return compare(one, other)


def _items(node: Node) -> Iterator[Node]:
    match node:
        case looking.UnionType():
            for each in node.types:
                yield from _items(each)
        case looking.TupleType():
            yield from node.item_types
        case _ if isinstance(node, _LISTS):
            yield node.item_type
        case _ if _kinds(node) is None:
            yield looking.AnyType()


def _fits(given: Node, wanted: Node, depth: int) -> bool:
    if isinstance(given, looking.UnionType):
        return any(_fits(each, wanted, depth) for each in given.types)
    if isinstance(wanted, looking.UnionType):
        return any(_fits(given, each, depth) for each in wanted.types)
    gives, takes = _kinds(given), _kinds(wanted)
    if gives is None or takes is None or depth == _DEEP_ENOUGH:
        return True
    if not gives & (takes | _ALSO_READ.get(type(wanted), frozenset())):
        return False
    if isinstance(given, _STRICT_TEXTS) and isinstance(wanted, _STRICT_TEXTS):
        return type(given) is type(wanted)
    return _parts_fit(given, wanted, depth + 1)


def _kinds(node: Node) -> frozenset[str] | None:
    """Return the JSON kinds of a type; None if they are not known."""
    match node:
        case looking.EnumType():
            return _kinds_of(member.value for member in node.cls)
        case looking.LiteralType():
            return _kinds_of(node.values)
        case looking.StructType() if node.array_like:
            return None
        case _:
            return _KINDS.get(type(node))


def _kinds_of(values: Iterator[object] | tuple[object, ...]) -> frozenset[str] | None:
    found = {_SCALARS.get(type(value)) for value in values}
    return None if None in found else frozenset(kind for kind in found if kind)


def _parts_fit(given: Node, wanted: Node, depth: int) -> bool:
    if isinstance(given, _LISTS) and isinstance(wanted, _LISTS):
        return _fits(given.item_type, wanted.item_type, depth)
    if isinstance(given, looking.DictType) and isinstance(wanted, looking.DictType):
        return _fits(given.value_type, wanted.value_type, depth)
    if isinstance(given, _RECORDS) and isinstance(wanted, _RECORDS):
        return _fields_fit(given, wanted, depth)
    return True


def _fields_fit(given: Any, wanted: Any, depth: int) -> bool:  # noqa: ANN401 - two of _RECORDS
    if given.cls is wanted.cls:
        return True
    has = {field.encode_name: field for field in given.fields}
    return all(
        _fits(has[field.encode_name].type, field.type, depth)
        if field.encode_name in has
        else not field.required
        for field in wanted.fields
    )
