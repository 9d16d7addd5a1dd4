"""Whatever looks into a value that is not there yet is told what it looked into."""

import asyncio
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from duly.errors import InvalidValue
from duly.flow.trace import StepRequest, Trace, tracing

Later: TypeAlias = Any  # what its author takes for a value


def result_of_a_step() -> Later:
    trace = Trace("etl", owner=None, parameters=("day",))
    with tracing(trace):
        return trace.add(StepRequest(task="extract", given={})).result


async def awaited(value: Later) -> None:
    await value


async def gone_over(value: Later) -> list[Any]:
    return [each async for each in value]


async def entered(value: Later) -> None:
    async with value:
        pass


def unpacked(value: Later) -> None:
    _first, *_rest = value


def set_in(value: Later) -> None:
    value["rows"] = 1


def removed_from(value: Later) -> None:
    del value["rows"]


def opened(value: Later) -> None:
    with value:
        pass


LOOKS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "an attribute": ("….rows", lambda value: value.rows),
    "a private attribute": ("…._rows", lambda value: value._rows),
    "an attribute that is set": ("….… = …", lambda value: setattr(value, "rows", 1)),
    "an attribute that is deleted": ("del ….…", lambda value: delattr(value, "rows")),
    "an item by name": ('…["rows"]', lambda value: value["rows"]),
    "an item by number": ("…[0]", lambda value: value[0]),
    "a slice": ("…[slice(None, 5, None)]", lambda value: value[:5]),
    "an item that is set": ("…[…] = …", set_in),
    "an item that is deleted": ("del …[…]", removed_from),
    "iteration": ("for … in it", list),
    "unpacking": ("for … in it", unpacked),
    "an asynchronous loop": ("async for … in it", lambda value: asyncio.run(gone_over(value))),
    "reversed": ("reversed(…)", reversed),
    "next": ("next(…)", next),
    "its length": ("len(…)", len),
    "whether it is empty": ("if …", bool),
    "a choice by it": ("if …", lambda value: value or 1),
    "whether something is in it": ("… in it", lambda value: 1 in value),
    "a call": ("…()", lambda value: value()),
    "its text": ("str(…)", str),
    "a text with it": ('f"{…}"', lambda value: f"{value}"),
    "a text that is formatted": ("str(…)", lambda value: "%s" % value),  # noqa: UP031
    "its bytes": ("bytes(…)", bytes),
    "a whole number": ("int(…)", int),
    "a number": ("float(…)", float),
    "a place in a list": ("as a number", lambda value: [1, 2][value]),
    "a range": ("as a number", range),
    "rounding": ("round(…)", round),
    "abs": ("abs(…)", abs),
    "minus": ("-…", operator.neg),
    "not": ("if …", operator.not_),
    "a sum": ("… + …", lambda value: value + 1),
    "a sum from the right": ("… + …", lambda value: 1 + value),
    "a product": ("… * …", lambda value: value * 2),
    "a quotient from the right": ("… / …", lambda value: 1 / value),
    "a union": ("… | …", lambda value: value | {}),
    "divmod": ("divmod(…, …)", lambda value: divmod(value, 2)),
    "order": ("… >> …", lambda value: value >> 1),
    "equality": ("… == …", lambda value: value == 1),
    "inequality": ("… != …", lambda value: value != 1),
    "less": ("… < …", lambda value: value < 1),
    "less, from the right": ("… > …", lambda value: 1 < value),  # noqa: SIM300
    "a key": ("as a key", lambda value: {value: 1}),
    "a set": ("as a key", lambda value: {value}),
    "waiting": ("await …", lambda value: asyncio.run(awaited(value))),
    "with": ("with …", opened),
    "async with": ("async with …", lambda value: asyncio.run(entered(value))),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_is_refused_and_the_step_is_named(look: str) -> None:
    shown, does = LOOKS[look]
    instead = (
        "task.map(…) runs a task for each item of it"
        if shown == "for … in it"
        else "write a task that takes it"
    )
    with pytest.raises(InvalidValue) as refused:
        does(result_of_a_step())
    assert str(refused.value) == (
        f"etl: it reads the result of step extract ({shown}), which has no value yet when the "
        f"flow is defined: {instead}"
    )


def test_a_look_at_a_parameter_names_the_parameter() -> None:
    day: Any = Trace("etl", owner=None, parameters=("day",)).arguments()["day"]
    with pytest.raises(InvalidValue, match=r"^etl: it reads its parameter day \(….year\), "):
        _ = day.year


def test_of_two_steps_of_one_task_the_second_is_named() -> None:
    trace = Trace("etl", owner=None, parameters=())
    trace.add(StepRequest(task="extract", given={}))
    second: Any = trace.add(StepRequest(task="extract", given={})).result
    with pytest.raises(InvalidValue, match=r"the result of step extract 2 \(len"):
        len(second)


def test_it_can_be_shown_to_who_debugs() -> None:
    assert repr(result_of_a_step()) == "<the result of step extract>"
