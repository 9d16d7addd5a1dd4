"""Type compatibility: whether the result of one task can be the argument of another.

Between the two the value is JSON, so their JSON forms are compared: a date is a text, a dataclass
an object with fields. Only types that are certainly incompatible are refused. If a type is missing,
or one of several fits, the check happens when the step runs.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, get_args, get_origin

from msgspec import inspect as looking

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
