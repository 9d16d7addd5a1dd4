"""What is refused of a flow, word by word: when it is defined, with the step and the parameter."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from duly import Duly, Flow, Step
from duly.errors import InvalidValue
from tests.app.etl import (
    DAY,
    anything,
    clean,
    count,
    duly,
    etl,
    extract,
    forget,
    load,
    loose,
    only_by_name,
    transform,
)


def in_flow(draw: Callable[..., Any]) -> str:
    """What is said against a flow."""
    with pytest.raises(InvalidValue) as refused:
        duly.flow(name="bad")(draw)
    assert "bad" not in duly.registry
    return str(refused.value)


def test_out_of_a_flow_there_are_no_steps() -> None:
    told: list[str] = []
    for made in (
        clean.step,
        lambda: transform.map([1]),
        lambda: extract.bind(DAY).step(),
        lambda: duly.wait_for("order.paid"),
        lambda: etl(DAY),  # type: ignore[operator]
    ):
        with pytest.raises(InvalidValue) as refused:
            made()
        told.append(str(refused.value))
    assert told == [
        "clean.step(…) only works inside @duly.flow; to run the task: clean.enqueue(…)",
        "transform.map(…) only works inside @duly.flow; to run the task: transform.enqueue(…)",
        "extract.step(…) only works inside @duly.flow; to run the task: extract.enqueue(…)",
        'wait_for("order.paid") is a step of a flow: call it inside @duly.flow',
        "etl is a flow, whose function runs only once, to define it: run the flow with "
        "etl.enqueue(…), and in another flow use etl.step(…)",
    ]


other_app = Duly()


@other_app.task
def elsewhere() -> None: ...


def nested_definition() -> None:
    @duly.flow
    def inner() -> None:
        clean.step()


def returns_nothing() -> Step[int]:
    count.step("a")
    return None  # type: ignore[return-value]


def returns_a_number() -> int:
    return clean.step()  # type: ignore[return-value]


def returns_the_wrong_step() -> Step[int]:
    return load.step([1.0])  # type: ignore[return-value]


def over_text(text: str) -> None:
    transform.map(count.step(text).result)  # type: ignore[arg-type]


def texts_for_numbers(texts: list[str]) -> None:
    transform.map(texts)  # type: ignore[arg-type]


def number_for_text(number: int) -> None:
    count.step(number)  # type: ignore[arg-type]


def wrong_default(day: date = "today") -> None:  # type: ignore[assignment]
    extract.step(day)


def with_words(**words: int) -> None:
    loose.step(**words)


def branches(day: date) -> None:
    if day > DAY:
        clean.step()


def over_when_failed(day: date) -> None:
    transform.map(extract.step(day).result).when("all_done")


def result_when_failed(day: date) -> None:
    load.step(transform.map(extract.step(day).result).result).when("any_failed")


async def asynchronous() -> None:
    clean.step()


def wrong_key(order_id: int) -> None:
    duly.wait_for("order.paid", key="order:{order}")


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "a look": (
        branches,
        "bad: it reads its parameter day (… > …), which has no value yet when the flow is "
        "defined: write a task that takes it",
    ),
    "no steps": (lambda: None, "bad: it has no steps: call task.step(…) in it"),
    "a task that is called": (
        lambda: [clean()],
        "bad: clean(…) would happen now, while the flow is defined, and not when it runs: call "
        "clean.step(…)",
    ),
    "a task that is enqueued": (
        lambda: [clean.enqueue()],
        "bad: clean.enqueue(…) would happen now, while the flow is defined, and not when it runs: "
        "call clean.step(…)",
    ),
    "a task of another app": (
        lambda: [elsewhere.step()],
        "bad: step elsewhere: the task belongs to another app: a flow and its steps must belong "
        "to one Duly()",
    ),
    "a flow in a flow": (
        nested_definition,
        "inner: it is defined inside of bad, whose function runs only once: define it outside, "
        "and call inner.step(…)",
    ),
    "an argument that is missing": (
        lambda: [load.step()],  # type: ignore[call-arg]
        "bad: step load: load(rows: list[float]): missing a required argument: 'rows'",
    ),
    "an argument that there is none of": (
        lambda: clean.step(rows=1),  # type: ignore[call-arg]
        "bad: step clean: clean(): got an unexpected keyword argument 'rows'",
    ),
    "an argument of the wrong type": (
        lambda: load.step([1.0, "a"]),  # type: ignore[list-item]
        "bad: step load: argument `rows[1]`: expected float, got str",
    ),
    "one of the wrong type beside a result": (
        lambda: transform.step(count.step("a").result, factor="x"),  # type: ignore[arg-type]
        "bad: step transform: argument `factor`: expected int, got str",
    ),
    "an item of the wrong type": (
        lambda: transform.map([1, "a"]),  # type: ignore[list-item]
        "bad: step transform: argument `row[1]`: expected int, got str",
    ),
    "something else than a list": (
        lambda: transform.map(5),  # type: ignore[arg-type]
        "bad: step transform: it maps over 5: expected a list, or the result of a step that "
        "returns a list",
    ),
    "a text for a list": (
        lambda: count.map("abc"),
        "bad: step count: it maps over 'abc': expected a list, or the result of a step that "
        "returns a list",
    ),
    "nothing to go over": (
        lambda: only_by_name.map([1]),  # type: ignore[arg-type, misc]
        "bad: step only_by_name: map() passes each item as the first parameter; the task is "
        "only_by_name(*, row: int)",
    ),
    "a result of the wrong type": (
        lambda: load.step(count.step("a").result),  # type: ignore[arg-type]
        "bad: step load: `rows` is list[float], but the result of step count is int",
    ),
    "a list of results of the wrong type": (
        lambda: load.step(etl.map([DAY]).result),  # type: ignore[arg-type]
        "bad: step load: `rows` is list[float], but the result of step etl is list[Report]",
    ),
    "a result of the wrong type inside of a list": (
        lambda: load.step([1.0, count.step("a").result, etl.step(DAY).result]),  # type: ignore[list-item]
        "bad: step load: `rows[2]` is float, but the result of step etl is Report",
    ),
    "no result": (
        lambda: load.step(clean.step().result),  # type: ignore[arg-type]
        "bad: step load: `rows` is list[float], but the result of step clean is None",
    ),
    "a result that is not kept": (
        lambda: anything.step(forget.step().result),
        "bad: step anything: step forget has no result: forget is declared with keep_result=None",
    ),
    "what an event says": (
        lambda: load.step(duly.wait_for("order.paid").result),  # type: ignore[arg-type]
        "bad: step load: `rows` is list[float], but the result of step wait for order.paid is "
        "dict[str, Any]",
    ),
    "a parameter of the wrong type": (
        number_for_text,
        "bad: step count: `text` is str, but the flow's parameter number is int",
    ),
    "a result that is no list": (
        over_text,
        "bad: step transform: it maps over the result of step count, which is int, not a list",
    ),
    "items of the wrong type": (
        texts_for_numbers,
        "bad: step transform: `row` is int, but it maps over the flow's parameter texts, "
        "which is list[str]",
    ),
    "a result that may not be there": (
        result_when_failed,
        "bad: step load: it also runs when transform has failed, and then there is no result: "
        "annotate rows as `list[float] | None`",
    ),
    "a list that may not be there": (
        over_when_failed,
        "bad: step transform: it also runs when extract has failed, and then there is no list to "
        "map over: write a task that takes the whole result",
    ),
    "a default of the wrong type": (
        wrong_default,
        "bad: argument `day`: write a date as 2026-03-05",
    ),
    "words of any name": (
        with_words,
        "bad: **words: the parameters of a flow must be named, so that steps can use them",
    ),
    "something that is returned": (
        lambda: clean.step().result,
        "bad: it returns <the result of step clean>: a flow returns one of its steps, whose "
        "result becomes the result of the flow, or None",
    ),
    "nothing that is returned": (
        returns_nothing,
        "bad: its return annotation is Step[int], but it returns nothing: return the step, or "
        "write -> None",
    ),
    "a number that is returned": (
        returns_a_number,
        "bad: its return annotation is int, but a flow returns one of its steps or None: write -> "
        "Step[int]",
    ),
    "another step that is returned": (
        returns_the_wrong_step,
        "bad: its return annotation is int, but the result of step load is Report",
    ),
    "an asynchronous function": (
        asynchronous,
        "bad: a flow must be a plain def: it names its steps, and awaits nothing",
    ),
    "a key": (
        lambda: clean.using(key="one").step(),
        "bad: step clean: using(key=…): steps have no key; give the flow one: bad.using(key=…)",
    ),
    "a choice about a key": (
        lambda: clean.using(if_exists="keep").step(),
        "bad: step clean: using(if_exists=…): steps have no key; give the flow one: "
        "bad.using(if_exists=…)",
    ),
    "a connection": (
        lambda: clean.using(connection=object()).step(),
        "bad: step clean: using(connection=…): steps are written later; set it for the flow: "
        "bad.using(connection=…)",
    ),
    "a moment": (
        lambda: clean.using(run_after=datetime(2027, 1, 1, tzinfo=UTC)).step(),
        "bad: step clean: using(run_after=…): a fixed time would be the same for every run of the "
        'flow: give a delay after the previous steps, as run_after="5m"',
    ),
    "a choice that is none": (
        lambda: clean.using(priority="urgent").step(),  # type: ignore[arg-type]
        'bad: step clean: priority=\'urgent\': expected "high", "normal", "low", "idle", or '
        "a whole number from -100 to 100 (higher runs sooner)",
    ),
    "a time-out that cannot be kept": (
        lambda: clean.using(timeout="5m").step(),
        'bad: step clean: a thread cannot be stopped: use executor="process" (killed after 5m), '
        'or executor="thread" (only reported), or make the function async',
    ),
    "the name of an event": (
        lambda: duly.wait_for("Order paid!"),
        'bad: wait_for("Order paid!"): ',
    ),
    "a key of no parameter": (
        wrong_key,
        'bad: wait_for("order.paid"): key="order:{order}": there is no parameter "order"; the flow '
        "has order_id, and a key is made of those",
    ),
    "a bare number": (
        lambda: duly.wait_for("order.paid", timeout=5),  # type: ignore[arg-type]
        'bad: wait_for("order.paid"): timeout=5: a unit is missing: write "5s" or "5m"',
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_told_when_the_flow_is_defined(mistake: str) -> None:
    draw, told = REFUSED[mistake]
    found = in_flow(draw)
    assert found == told or (told.endswith(": ") and found.startswith(told))


def test_options_of_a_task_that_a_flow_has_not_are_refused() -> None:
    told = "a flow has no option retry=; there are name, aliases, title, queue, priority, timeout, "
    with pytest.raises(InvalidValue) as refused:
        duly.flow(retry=None)  # type: ignore[call-overload]
    assert str(refused.value).startswith(told)


def test_what_is_declared_already_is_not_declared_again() -> None:
    with pytest.raises(InvalidValue, match=r"^etl is a Flow already: @duly.flow is for a function"):
        duly.flow(etl)  # type: ignore[call-overload]
    with pytest.raises(InvalidValue, match=r"^clean is a Task already: @duly.flow is for a functi"):
        duly.flow(clean)
    with pytest.raises(InvalidValue, match=r"^etl is a task already: one @duly.task is enough"):
        duly.task(etl)  # type: ignore[call-overload]


def test_a_flow_and_a_task_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r'^two tasks are named "clean": clean in etl.py:'):

        @duly.flow(name="clean")
        def another() -> None:
            load.step([1.0])


def test_a_flow_that_is_a_step_of_itself_is_refused() -> None:
    def declared(inner: Flow[[], None] | None) -> Flow[[], None]:
        @duly.flow
        def again() -> None:
            clean.step() if inner is None else inner.step()

        return again

    with pytest.raises(
        InvalidValue, match=r"^again: it contains itself as a step, and would never end$"
    ):
        declared(declared(None))


def test_what_is_there_for_failures_is_behind_something() -> None:
    def draw() -> None:
        clean.step().when("any_failed")

    assert in_flow(draw) == (
        'bad: step clean: when("any_failed") needs a step before it, and there is none: name one, '
        "as in load >> it"
    )


def test_nothing_is_said_while_a_flow_is_defined() -> None:
    def draw() -> None:
        duly.emit("doc.changed")
        clean.step()

    assert in_flow(draw) == (
        'bad: emit("doc.changed") would happen now, while the flow is defined, and not when it '
        "runs: emit it in a task, and call task.step(…)"
    )
