"""Values from the rows of the store: each column becomes a field, by the type of that field.

A datetime is stored as an instant in microseconds, a duration as a number of them, an enum as its
value, and a collection as JSON text.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from duly.instants import from_us
from duly.model.limit import NamedLimit, limits_from_json
from duly.model.terms import Terms

T = TypeVar("T")

Convert = Callable[[Any], Any]

_CONVERTERS: Final[Mapping[Any, Convert]] = {
    bool: bool,
    datetime: from_us,
    timedelta: lambda length: timedelta(microseconds=length),
    Mapping[str, int]: lambda text: json.loads(text) if text else {},
    Mapping[str, str]: json.loads,
    tuple[str, ...]: msgspec.json.Decoder(tuple[str, ...]).decode,
    tuple[int, ...]: msgspec.json.Decoder(tuple[int, ...]).decode,
    tuple[NamedLimit, ...]: lambda text: limits_from_json(text) if text else (),
    Terms: Terms.from_json,
}


def read_rows(kind: type[T], found: Iterable[Iterable[Any]], columns: str = "") -> list[T]:
    """Return a value for each row; ``columns`` names the fields, unless they are all, in order."""
    make = reader(kind, columns)
    return [make(row) for row in found]


def reader(kind: type[T], columns: str = "") -> Callable[[Iterable[Any]], T]:
    """Return a function that makes a value from a row, as ``read_rows`` does."""
    make: Callable[[Iterable[Any]], T] = _reader(kind, columns)  # type: ignore[arg-type] # a class is hashable
    return make


@cache
def _reader(kind: Any, columns: str) -> Convert:  # noqa: ANN401 - a class
    hints = get_type_hints(kind)
    names = columns.split() or [field.name for field in fields(kind)]
    converters = [(at, _converter(hints[name])) for at, name in enumerate(names)]
    needed = [(at, convert) for at, convert in converters if convert is not None]

    def make(row: Iterable[Any]) -> Any:  # noqa: ANN401 - a value of the class
        values = list(row)
        for at, convert in needed:
            values[at] = convert(values[at])
        return kind(**dict(zip(names, values, strict=True)))

    return make


def _converter(hint: Any) -> Convert | None:  # noqa: ANN401 - an annotation
    """Return the function that reads a column of this type; None if it is read as it is."""
    if hint in _CONVERTERS:
        return _CONVERTERS[hint]
    if isinstance(hint, type):
        if is_dataclass(hint):
            return msgspec.json.Decoder(hint).decode
        return hint if issubclass(hint, Enum) else None
    some = [member for member in get_args(hint) if member is not NoneType]
    convert = _converter(some[0]) if NoneType in get_args(hint) and len(some) == 1 else None
    if convert is None:
        return None
    return lambda value: None if value is None or value == "" else convert(value)
