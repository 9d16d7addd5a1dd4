"""How types that JSON has no form for are written as one, and read back.

Most need nothing: numbers, texts, moments, lengths of time, decimals, UUIDs, bytes, enums,
dataclasses, TypedDicts, attrs classes and their collections are known. Paths and time zones are
registered here, pydantic models bring their own way, and ``codec`` is for the rest.
"""

from collections.abc import Callable
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from duly.errors import InvalidValue

T = TypeVar("T")


def codec(kind: type[T], encode: Callable[[T], object], decode: Callable[[Any], T]) -> None:
    """Keep values of this type: ``codec(Path, str, Path)``.

    To be called before the tasks that take such values are declared. ``encode`` makes something
    that is known already; values of subclasses are written with it too.
    """
    asked: object = kind
    if not isinstance(asked, type) or asked is object:
        raise InvalidValue(
            f"codec({asked!r}, …): the first is a class, as in codec(Path, str, Path)"
        )
    if not all(callable(way) for way in (encode, decode)):
        raise InvalidValue(f"codec({kind.__name__}, …): two functions, one to write, one to read")
    _WRITERS[kind] = encode
    _READERS[kind] = decode


def is_kept(kind: type) -> bool:
    """Whether a type that JSON has no form for can be written and read nevertheless."""
    return kind is object or kind in _READERS or _is_model(kind)


def written(value: object) -> object:
    """Something known in place of a value that is not."""
    kind = type(value)
    for base in kind.__mro__:
        if base in _WRITERS:
            return _WRITERS[base](value)
    if _is_model(kind):
        return value.model_dump(mode="json")  # type: ignore[attr-defined]
    raise TypeError(f"{kind.__name__} has no form in JSON: {WHAT_TO_DO}")


def read(kind: type, value: object) -> object:
    """The value again. What its reader says against it, whatever it raises, is a refusal."""
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
    "make it a dataclass, or say how it is written and read: codec(Path, str, Path), "
    "before the task is declared"
)

_WRITERS: dict[type, Callable[[Any], object]] = {}
_READERS: dict[type, Callable[[Any], object]] = {}

codec(PurePath, str, PurePath)
codec(PurePosixPath, str, PurePosixPath)
codec(Path, str, Path)
codec(ZoneInfo, str, ZoneInfo)

ENCODER = msgspec.json.Encoder(enc_hook=written)
