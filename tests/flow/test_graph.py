"""From steps as they are written to a graph: names, numbers, order, and what is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import pytest

from duly.errors import InvalidValue
from duly.flow.graph import Graph, graph_of
from duly.flow.stand_in import emptied
from duly.flow.trace import Step, StepRequest, Trace, current_trace, tracing
from duly.model.flow import MOST_STEPS, Fill, Source


def drawn(draw: Callable[[Callable[..., Step[Any]]], object], *parameters: str) -> Graph:
    """The graph of a flow that is written with ``step("name", argument=…)``."""
    trace = Trace("etl", owner=None, parameters=parameters)
    with tracing(trace):
        return graph_of(trace, draw(step_in(trace)))


def step_in(trace: Trace) -> Callable[..., Step[Any]]:
    def step(task: str, *, over: str | None = None, **given: object) -> Step[Any]:
        return trace.add(StepRequest(task=task, given=given, over=over))

    return step


def edges(graph: Graph) -> dict[str, list[str]]:
    return {each.name: [graph.steps[number].name for number in each.before] for each in graph.steps}


def test_a_result_that_is_taken_is_order() -> None:
    def draw(step: Callable[..., Step[Any]]) -> Step[Any]:
        rows = step("extract")
        return step("load", rows=rows.result, again=rows.result)

    graph = drawn(draw)
    assert edges(graph) == {"extract": [], "load": ["extract"]}
    assert graph.result == 1
    assert graph.steps[1].fills == (
        Fill(("rows",), Source(step=0)),
        Fill(("again",), Source(step=0)),
    )


def test_arrows_are_order_through_lists_on_either_side() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        a, b, c, d, e = (step(name) for name in "abcde")
        a >> [b, c] >> d
        (b, c) >> e

    assert edges(drawn(draw)) == {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["b", "c"]}


def test_what_an_arrow_points_at_is_what_it_gives() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        a, b, c = step("a"), step("b"), step("c")
        assert (a >> b) is b
        both = [b, c]
        assert (a >> both) is both
        assert (both >> step("d")).name == "d"

    drawn(draw)


def test_steps_of_one_task_are_told_apart() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        step("transform")
        step("transform").named("first")
        step("transform")
        step("load").named("transform 3")
        step("transform")

    names = [each.name for each in drawn(draw).steps]
    assert names == ["transform", "first", "transform 2", "transform 3", "transform 4"]


def test_two_that_are_given_one_name_are_refused() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        step("a").named("same")
        step("b").named("same")

    with pytest.raises(InvalidValue, match=r'^etl: two steps are named "same"$'):
        drawn(draw)


def test_numbers_follow_the_text_where_the_order_allows() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        late, first, middle, last = step("late"), step("first"), step("middle"), step("last")
        last >> late
        first >> middle

    assert [each.name for each in drawn(draw).steps] == ["first", "middle", "last", "late"]


def test_a_circle_is_refused_with_the_way_round() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        outside, a, b, c, behind = (step(name) for name in ("outside", "a", "b", "c", "behind"))
        outside >> b >> c >> a >> b >> behind

    with pytest.raises(InvalidValue) as refused:
        drawn(draw)
    assert str(refused.value) == "etl: its steps depend on each other in a cycle: a → b → c → a"


def test_a_step_that_waits_for_itself_is_a_circle() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        a = step("a")
        a >> a

    with pytest.raises(InvalidValue, match=r"in a cycle: a → a$"):
        drawn(draw)


def test_a_flow_without_steps_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"^etl: it has no steps: call task.step\(…\) in it$"):
        drawn(lambda _: None)


def test_what_is_there_for_failures_takes_those_behind_it_along() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        work = step("work")
        undo = step("undo").when("any_failed")
        work >> undo >> step("tell")
        work >> step("tidy").when("all_done").if_failed("go_on")
        work >> step("more")

    graph = drawn(draw)
    assert {each.name for each in graph.steps if each.rescue} == {"undo", "tell", "tidy"}
    assert {each.name: each.when for each in graph.steps if each.when != "all_succeeded"} == {
        "undo": "any_failed",
        "tidy": "all_done",
    }
    assert [each.name for each in graph.steps if each.if_failed == "go_on"] == ["tidy"]


def test_results_are_wanted_by_who_takes_them_and_by_the_flow() -> None:
    def draw(step: Callable[..., Step[Any]]) -> Step[Any]:
        taken, in_a_list, listed, returned = (step(name) for name in "abcd")
        step("e", rows=[taken.result], over="x", x=listed.result)
        in_a_list >> step("f")
        return returned

    assert {each.name for each in drawn(draw).steps if each.wanted} == {"a", "c", "d"}


def test_a_stand_in_is_found_wherever_it_lies_in_lists_and_dicts() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        trace = current_trace()
        assert trace is not None
        day = trace.arguments()["day"]
        rows = step("extract").result
        given = {"parts": [1, rows, ({"day": day},)], "more": 2}
        assert emptied(given) == {"parts": [1, None, [{"day": None}]], "more": 2}
        step("load", what=given)

    assert drawn(draw, "day").steps[1].fills == (
        Fill(("what", "parts", 1), Source(step=0)),
        Fill(("what", "parts", 2, 0, "day"), Source(argument="day")),
    )


def test_a_list_that_a_step_goes_over_is_no_place_in_its_arguments() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        step("transform", over="row", row=step("extract").result)

    [_, mapped] = drawn(draw).steps
    assert (mapped.over, mapped.fills, mapped.before) == (Source(step=0), (), (0,))


@dataclass
class Order:
    rows: object


def another() -> Step[Any]:
    trace = Trace("other", owner=None, parameters=())
    return trace.add(StepRequest(task="elsewhere", given={}))


REFUSED: dict[str, tuple[str, Callable[[Callable[..., Step[Any]]], object]]] = {
    "a result of another flow": (
        "etl: step load: it uses the result of step elsewhere of other, which is another flow: "
        "pass the value as an argument, or nest that flow with its .step(…)",
        lambda step: step("load", rows=another().result),
    ),
    "a step of another flow": (
        "etl: step load: it cannot depend on step elsewhere, which belongs to other: a flow "
        "orders only its own steps",
        lambda step: another() >> step("load"),
    ),
    "a step of another flow that is returned": (
        "etl: it returns step elsewhere of other: a flow returns one of its own steps",
        lambda _: another(),
    ),
    "something that is returned": (
        "etl: it returns <the result of step a>: a flow returns one of its steps, whose result "
        "becomes the result of the flow, or None",
        lambda step: step("a").result,
    ),
    "a step as an argument": (
        "etl: step load: `rows` is the step extract itself: pass its .result",
        lambda step: step("load", rows=step("extract")),
    ),
    "a step in a list that is an argument": (
        "etl: step load: `rows[1]` is the step extract itself: pass its .result",
        lambda step: step("load", rows=[1, step("extract")]),
    ),
    "a result under a key that is no text": (
        "etl: step load: `rows` has <the result of step extract> under the key 7: the keys of "
        "values that are filled in later must be strings",
        lambda step: step("load", rows={7: step("extract").result}),
    ),
    "a result in a dataclass": (
        "etl: step load: `order` is a Order that contains <the result of step extract>: a value "
        "that is filled in later must be an argument, or inside a list or dict: write a task that "
        "takes the value and builds the object",
        lambda step: step("load", order=Order(step("extract").result)),
    ),
    "a list of results that a step goes over": (
        "etl: step load: it maps over a list that contains the result of step extract: call "
        "load.step(…) for each item, or write a task that returns the list",
        lambda step: step("load", over="row", row=[step("extract").result]),
    ),
    "an arrow to a result": (
        "etl: step a: <the result of step b> is not a step: >> orders steps, or lists of steps: "
        "remove .result",
        lambda step: step("a") >> step("b").result,
    ),
    "an arrow to something else": (
        "etl: step a: 5 is not a step: >> orders steps, or lists of steps: task.step(…) returns "
        "one",
        lambda step: step("a") >> [5],
    ),
    "a word that is none": (
        "etl: step a: when='any_succeeded': choose one of all_succeeded, any_failed, all_done",
        lambda step: step("a").when("any_succeeded"),  # type: ignore[arg-type]
    ),
    "another word that is none": (
        "etl: step a: if_failed='retry': choose one of cancel, go_on",
        lambda step: step("a").if_failed("retry"),  # type: ignore[arg-type]
    ),
    "an empty name": (
        "etl: step a: a name must not be empty",
        lambda step: step("a").named(""),
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_named(mistake: str) -> None:
    told, draw = REFUSED[mistake]
    with pytest.raises(InvalidValue) as refused:
        drawn(draw)
    assert str(refused.value) == told


def test_a_flow_that_is_defined_does_not_change() -> None:
    kept: list[Step[Any]] = []

    def draw(step: Callable[..., Step[Any]]) -> None:
        kept.append(step("a"))

    drawn(draw)
    with pytest.raises(InvalidValue, match=r"^etl: step a: its flow is defined already and cannot"):
        kept[0].when("all_done")


def test_a_flow_inside_of_a_flow_is_refused_and_the_outer_one_stays() -> None:
    outer, inner = (Trace(name, owner=None, parameters=()) for name in ("outer", "inner"))
    with tracing(outer):
        with pytest.raises(InvalidValue) as refused, tracing(inner):
            pass
        assert current_trace() is outer
    assert current_trace() is None
    assert str(refused.value) == (
        "inner: it is defined inside of outer, whose function runs only once: define it outside, "
        "and call inner.step(…)"
    )


def test_a_loop_that_never_ends_is_stopped() -> None:
    def draw(step: Callable[..., Step[Any]]) -> None:
        while True:
            step("a")

    with pytest.raises(
        InvalidValue, match=r"^etl: more than 10,000 steps: use task\.map\(…\), which is one"
    ):
        drawn(draw)


def test_ten_thousand_steps_in_a_chain_take_no_quadratic_time() -> None:
    def draw(step: Callable[..., Step[Any]]) -> Step[Any]:
        last = step("a", x=0)
        for _ in range(MOST_STEPS - 1):
            last = step("a", x=last.result)
        return last

    began = perf_counter()
    graph = drawn(draw)
    assert perf_counter() - began < 10  # 0.5 s; names or order by searching take minutes
    assert graph.steps[-1].before == (MOST_STEPS - 2,)
