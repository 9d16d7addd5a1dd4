"""The JSON form of the store's values, derived from their annotations.

Every field is sent, whatever its default: the other side may be of another version with another
default. Unknown fields are ignored in stored values and refused in requests: a choice that is not
understood must not be lost.

A datetime is ISO 8601 with its offset, a duration is a number of microseconds. Where several types
are possible, the value is in an object under the name of its type: ``{"timedelta": 5000000}``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    NewType,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

MICROSECOND: Final = timedelta(microseconds=1)
ANYTHING: Final[tuple[object, ...]] = (Any, object)
_SINGLE: Final[tuple[object, ...]] = (str, bool, int, float, None, NoneType)

Shape: TypeAlias = Literal[
    "single", "enum", "moment", "length", "optional", "several", "items", "row", "mapping",
    "record", "unknown",
]  # fmt: skip


def shape_of(kind: Any) -> Shape:  # noqa: ANN401, PLR0911 - a table would hide their order
    origin = get_origin(kind)
    if origin is Literal or isinstance(kind, NewType) or kind in (*_SINGLE, *ANYTHING):
        return "single"
    if origin in (Union, UnionType):
        has_none = NoneType in get_args(kind)
        return "optional" if has_none and len(get_args(kind)) == 2 else "several"
    if origin is tuple:
        return "items" if get_args(kind)[1:] == (...,) else "row"
    if origin in (list, Sequence, frozenset):
        return "items"
    if origin in (dict, Mapping):
        return "mapping"
    if not isinstance(kind, type):
        return "unknown"
    if issubclass(kind, Enum):
        return "enum"
    if kind in (datetime, timedelta):
        return "moment" if kind is datetime else "length"
    return "record" if is_dataclass(kind) or hasattr(kind, "_fields") else "unknown"


def members(kind: Any) -> list[Any]:  # noqa: ANN401
    return [member for member in get_args(kind) if member is not NoneType]


def plain_kind(kind: Any) -> Any:  # noqa: ANN401
    return kind.__supertype__ if isinstance(kind, NewType) else kind


def hints_of(kind: Any) -> dict[str, Any]:  # noqa: ANN401
    hints = get_type_hints(kind)
    names = [one.name for one in fields(kind)] if is_dataclass(kind) else kind._fields
    return {name: hints[name] for name in names}


def required_of(kind: Any) -> set[str]:  # noqa: ANN401
    if not is_dataclass(kind):
        return set(kind._fields) - set(kind._field_defaults)
    return {
        one.name
        for one in fields(kind)
        if one.default is MISSING and one.default_factory is MISSING
    }
