"""Codecs: how types without a JSON form are written and read back.

Most types need none: numbers, texts, datetimes, timedeltas, decimals, UUIDs, bytes, enums,
dataclasses, TypedDicts, attrs classes and collections of them work. Paths and time zones are
registered here, pydantic models have their own methods, and ``codec`` is for other types.
"""

from collections.abc import Callable
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from duly.errors import InvalidValue

T = TypeVar("T")


def codec(kind: type[T], encode: Callable[[T], object], decode: Callable[[Any], T]) -> None:
    """Register a type for arguments and results: ``codec(Path, str, Path)``.

    Call it before the tasks that use the type are declared. ``encode`` returns a value of a known
    type; it is used for subclasses too.
    """
    asked: object = kind
    if not isinstance(asked, type) or asked is object:
        raise InvalidValue(
            f"codec({asked!r}, …): the first argument must be a class, as in codec(Path, str, Path)"
        )
    if not all(callable(way) for way in (encode, decode)):
        raise InvalidValue(
            f"codec({kind.__name__}, …): give two functions, one to encode and one to decode"
        )
    _WRITERS[kind] = encode
    _READERS[kind] = decode


def is_kept(kind: type) -> bool:
    """Return whether a type without a JSON form can be written and read back."""
    return kind is object or kind in _READERS or _is_model(kind)


def written(value: object) -> object:
    """Return a value of a known type in place of one with a codec."""
    kind = type(value)
    for base in kind.__mro__:
        if base in _WRITERS:
            return _WRITERS[base](value)
    if _is_model(kind):
        return value.model_dump(mode="json")  # type: ignore[attr-defined]
    raise TypeError(f"{kind.__name__} cannot be written as JSON: {WHAT_TO_DO}")


def read(kind: type, value: object) -> object:
    """Read a value back; any exception of its reader becomes a ``ValueError``."""
    if kind is object:
        return value
    reader = _READERS.get(kind) or kind.model_validate  # type: ignore[attr-defined]
    try:
        return reader(value)
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _is_model(kind: type) -> bool:
    return hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


WHAT_TO_DO = (
    "make it a dataclass, or register how to encode and decode it before the task is declared: "
    "codec(Path, str, Path)"
)

_WRITERS: dict[type, Callable[[Any], object]] = {}
_READERS: dict[type, Callable[[Any], object]] = {}

codec(PurePath, str, PurePath)
codec(PurePosixPath, str, PurePosixPath)
codec(Path, str, Path)
codec(ZoneInfo, str, ZoneInfo)

ENCODER = msgspec.json.Encoder(enc_hook=written)
