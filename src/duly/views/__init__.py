"""The views: one shape of each noun for the command, the pages and the HTTP API.

The command, the pages and the HTTP API render the same values. ``views.job`` is the example:

* **One question.** A gatherer (``job_detail``, ``job_list``) asks the store once and takes the
  ``tenant`` of its caller: another tenant's data is not found.
* **One value.** A frozen dataclass (``JobView``; ``JobDetail`` has more of the same job) whose
  fields are the JSON, in the HTTP API and in ``-o json``. The OpenAPI schema is made from the
  annotations: ``Annotated[…, Meta(description=…)]`` describes a field. Moments are datetimes,
  durations are texts such as ``5m`` (see ``duration``).
* **One rule for secrets.** A field of free text is a ``Text``, which is redacted where the value is
  made, so whatever renders it cannot forget to.
* **One set of sentences.** Properties of the value word it (``name``, ``summary``, ``why``); tables
  and templates only lay them out.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.durations import show_duration
from duly.policy.redaction import redacted

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[T]):
    """A part of a list."""

    items: list[T]
    next: Annotated[
        str | None, Meta(description="The cursor of the next part; null if this is the last.")
    ] = None
    searched_to: Annotated[
        datetime | UnsetType | None,
        Meta(description="Ended jobs were searched back to this time; null if all were."),
    ] = UNSET


@dataclass(frozen=True, slots=True)
class Made:
    """Makes a field of a view from the field of its source; None stays None."""

    by: Callable[[Any], Any]


class FilledView:
    """The base of views whose fields are those of their sources."""

    __slots__ = ()

    @classmethod
    def of(cls, *sources: object, **given: Any) -> Self:
        """Return the view; its fields are ``given``, or those of the first source that has each."""
        return filled(cls, *sources, **given)


def filled(kind: type[T], *sources: object, **given: Any) -> T:
    """Return a value whose fields are ``given``, or those of the first source that has each."""
    for name, made in _fields(kind).items():  # type: ignore[arg-type] # a class is hashable
        source = next((one for one in sources if hasattr(one, name)), None)
        if name not in given and source is not None:
            value = getattr(source, name)
            given[name] = value if made is None or value is None else made.by(value)
    return kind(**given)


@cache
def _fields(kind: type) -> dict[str, Made | None]:
    return {name: _made(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


def _made(hint: object) -> Made | None:
    """Find how a field is made in its annotation, as in that of ``Text | None``."""
    if isinstance(hint, Made):
        return hint
    inside = get_args(hint) if get_origin(hint) in (Annotated, Union, UnionType) else ()
    return next((found for one in inside if (found := _made(one)) is not None), None)


def as_dict(view: object) -> dict[str, Any]:
    """Convert a view to JSON values, as the HTTP API returns and ``-o json`` prints them."""
    found: dict[str, Any] = msgspec.to_builtins(view)
    return found


def duration(length: timedelta | None) -> str | None:
    """Format a duration for JSON, such as ``1h30m``."""
    return None if length is None else show_duration(max(length, timedelta()))


def read_json(text: str | None) -> Any:  # noqa: ANN401 - JSON is any of its types
    """Parse stored JSON; return text that is not JSON as it is."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text


Text: TypeAlias = Annotated[str, Made(redacted)]  # free text: secrets are hidden
Texts: TypeAlias = Annotated[tuple[str, ...], Made(lambda found: tuple(map(redacted, found)))]
Length: TypeAlias = Annotated[str, Made(duration)]  # a duration, such as 5m
RateText: TypeAlias = Annotated[str, Made(str)]  # as 5/s
