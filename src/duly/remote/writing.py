"""Convert the store's values to JSON.

Roles below operator receive no secrets (``hiding``): every text is redacted and every JSON document
hidden, in any record. So a field that is added later is covered.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias, get_args

from duly.model.job import Label
from duly.model.payload import Json
from duly.model.schedule import Plan
from duly.policy.redaction import hidden, hidden_json, redacted
from duly.remote.shapes import ANYTHING, MICROSECOND, hints_of, members, shape_of

Write: TypeAlias = Callable[[Any], Any]


@cache
def writer(kind: Any, *, hiding: bool = False) -> Write:  # noqa: ANN401, C901, PLR0911 - a line for each shape
    """Return a function that converts values of this type to JSON; ``hiding``: without secrets."""

    def inner(kind: Any) -> Write:  # noqa: ANN401
        return writer(kind, hiding=hiding)

    match shape_of(kind):
        case "single":
            return _write_hidden(kind) if hiding else _as_it_is
        case "enum":
            return lambda value: value.value
        case "moment":
            return datetime.isoformat
        case "length":
            return lambda value: value // MICROSECOND
        case "optional":
            [some] = members(kind)
            write_some = inner(some)
            return lambda value: None if value is None else write_some(value)
        case "several":
            return _write_union({member: inner(member) for member in members(kind)})
        case "items":
            write_item = inner(get_args(kind)[0])
            return lambda value: [write_item(item) for item in value]
        case "row":
            return _write_row([inner(part) for part in get_args(kind)])
        case "mapping":
            return _write_mapping(*map(inner, get_args(kind)), named=get_args(kind)[0] is str)
        case "record":
            return _write_record(kind, hiding=hiding)
        case _:
            raise NotImplementedError(f"{kind!r} has no form as JSON")


def _as_it_is(value: Any) -> Any:  # noqa: ANN401
    return value


def _write_hidden(kind: Any) -> Write:  # noqa: ANN401
    if kind is Json:
        return lambda value: hidden_json("", value)
    if kind is str:
        return redacted
    return hidden if kind in ANYTHING else _as_it_is


def _write_union(writers: Mapping[Any, Write]) -> Write:
    def write(value: Any) -> Any:  # noqa: ANN401
        if value is None:
            return None
        kind = next(kind for kind in writers if isinstance(value, kind))
        return {kind.__name__: writers[kind](value)}

    return write


def _write_row(writers: Sequence[Write]) -> Write:
    return lambda value: [write(part) for write, part in zip(writers, value, strict=True)]


def _write_mapping(key: Write, value: Write, *, named: bool) -> Write:
    if named:
        return lambda found: {key(name): value(one) for name, one in found.items()}
    return lambda found: [[key(name), value(one)] for name, one in found.items()]


def _write_record(kind: Any, *, hiding: bool) -> Write:  # noqa: ANN401
    writers = {name: writer(hint, hiding=hiding) for name, hint in hints_of(kind).items()}
    is_call = hiding and issubclass(kind, Label)

    def write(value: Any) -> dict[str, Any]:  # noqa: ANN401
        # Of a plan that could not be read, not everything is there.
        there = {name: getattr(value, name, MISSING) for name in writers}
        plain = {name: writers[name](one) for name, one in there.items() if one is not MISSING}
        if isinstance(value, Plan) and value.unreadable:
            plain["unreadable"] = redacted(value.unreadable) if hiding else value.unreadable
        if is_call:  # where its secrets are depends on the task
            plain["args"] = hidden_json(value.task, value.args)
        return plain

    return write
