"""The arguments of a step, filled in when the results that it needs are known.

If a step cannot be filled in, because a result is not a list or is too large, the step fails with a
sentence that says so. Nothing else may raise here: the code runs while another job is finished.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from duly.errors import DulyError, InvalidValue
from duly.model.flow import (
    LONGEST_FILLED,
    MOST_FILLED,
    MOST_PARTS,
    Awaited,
    Fill,
    Over,
    Source,
)
from duly.model.limit import limits_as_json, limits_from_json, rendered_limits
from duly.model.payload import Json, check_text, decode
from duly.model.template import render, render_title


class StoredPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step as it is stored when its flow is opened.

    ``call`` holds the columns of its jobs by name; the title and the limits are templates.
    """

    call: dict[str, Any]
    fills: tuple[Fill, ...] = ()
    over: Over | None = None
    awaited: Awaited | None = None
    defaults: dict[str, Any] = {}

    @property
    def sources(self) -> Iterator[Source]:
        yield from (fill.source for fill in self.fills)
        if self.over is not None and self.over.source is not None:
            yield self.over.source


@dataclass(frozen=True, slots=True)
class Values:
    """The known values: the flow's arguments, and the results of steps, part by part."""

    arguments: Mapping[str, Any]
    results: Mapping[int, Sequence[Json | None]] = field(default_factory=dict)

    def of(self, source: Source) -> Any:  # noqa: ANN401 - JSON is any of its types
        if source.step is None:
            return self.arguments.get(source.argument, source.default)
        found = [None if one is None else decode(one) for one in self.results.get(source.step, ())]
        return found if source.is_list else next(iter(found), None)


@dataclass(frozen=True, slots=True)
class Filled:
    """The columns of one job of a step that depend on its arguments."""

    args: str
    title: str
    limits: str | None
    key: str | None = None  # of the event that it waits for


def filled(plan: StoredPlan, values: Values) -> list[Filled]:
    """Return the jobs of a step; raise ``InvalidValue`` if they cannot be filled in."""
    args = decode(plan.call["args"])
    for fill in plan.fills:
        _put(args, fill.path, values.of(fill.source))
    if plan.over is None:
        return [_one(plan, args)]
    found: list[Filled] = []
    room = MOST_FILLED
    for item in _items(plan.over, values):
        one = _one(plan, {**args, plan.over.argument: item})
        room -= len(one.args)
        if room < 0:
            raise InvalidValue(
                f"the arguments of all parts together have more than {MOST_FILLED:,} characters, "
                "because each part repeats the shared ones: store large values elsewhere and pass "
                "a reference"
            )
        found.append(one)
    return found


def _items(over: Over, values: Values) -> list[Any]:
    found = decode(over.items) if over.source is None else values.of(over.source)
    if not isinstance(found, list):
        raise InvalidValue(
            f"expected a list for `{over.argument}`, one job for each item, but got {_kind(found)}"
        )
    if len(found) > MOST_PARTS:
        raise InvalidValue(
            f"a list of {len(found):,} items: a step can have at most {MOST_PARTS:,} parts: give "
            "each part several items"
        )
    return found


def _one(plan: StoredPlan, args: Mapping[str, Any]) -> Filled:
    text = json.dumps(args, ensure_ascii=False, separators=(",", ":"))
    if len(text) > LONGEST_FILLED:
        raise InvalidValue(
            f"{len(text):,} characters of arguments: a step takes at most {LONGEST_FILLED:,}: let "
            "the previous steps store their results elsewhere and return a reference"
        )
    known = {**plan.defaults, **args}
    try:
        key = plan.awaited.key if plan.awaited else None
        return Filled(
            text,
            render_title(str(plan.call.get("title") or ""), known),
            _limits(plan.call.get("limits"), known),
            None if key is None else check_text(render(key, known), "key"),
        )
    except InvalidValue:
        raise
    except DulyError as error:
        raise InvalidValue(str(error)) from None


def _limits(text: str | None, known: Mapping[str, Any]) -> str | None:
    return None if text is None else limits_as_json(rendered_limits(limits_from_json(text), known))


def _put(into: Any, path: Sequence[str | int], value: Any) -> None:  # noqa: ANN401 - JSON
    for part in path[:-1]:
        into = into[part]
    into[path[-1]] = value


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    names = {dict: "an object", str: "a text", bool: "true or false"}
    return names.get(type(value), "a number")
