"""The views: one shape of each noun for the command, the pages and the HTTP API.

The command, the pages and the HTTP API render the same values. ``views.job`` is the example:

* **One question.** A gatherer (``job_detail``, ``job_list``) asks the store once and takes the
  ``tenant`` of its caller: another tenant's data is not found.
* **One value.** A frozen dataclass (``JobView``; ``JobDetail`` has more of the same job) whose
  fields are the JSON, in the HTTP API and in ``-o json``. The OpenAPI schema is made from the
  annotations: ``Annotated[…, Meta(description=…)]`` describes a field. Moments are datetimes,
  durations are texts such as ``5m`` (see ``duration``).
* **One rule for secrets.** Free text is redacted where the value is made, so whatever renders it
  cannot forget to.
* **One set of sentences.** Properties of the value word it (``name``, ``summary``, ``why``); tables
  and templates only lay them out.
"""

import json
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.durations import show_duration

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
        Meta(description="Ended jobs were searched back to this moment; null if all were."),
    ] = UNSET


def filled(kind: type[T], *sources: object, **given: Any) -> T:
    """Return a value whose fields are ``given``, or those of the first source that has each."""
    for field in fields(kind):  # type: ignore[arg-type] # a dataclass
        source = next((one for one in sources if hasattr(one, field.name)), None)
        if field.name not in given and source is not None:
            given[field.name] = getattr(source, field.name)
    return kind(**given)


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
