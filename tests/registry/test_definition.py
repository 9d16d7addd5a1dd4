"""Declaring a task: what is chosen where nothing is said, and what is refused, in which words."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from duly.errors import InvalidValue
from duly.model.limit import MOST_LIMITS, Limit
from duly.policy.retry import NEVER, Retry
from duly.registry.definition import Definition, define


def send(to: str, amount: int = 1) -> int:
    return amount


async def fetch(url: str) -> None: ...
def count() -> Iterator[int]:
    yield 1


async def follow() -> AsyncIterator[int]:
    yield 1


class Sender:
    def __call__(self, to: str) -> None: ...


class AsyncSender:
    async def __call__(self, to: str) -> None: ...


def refusal(function: Callable[..., object] = send, **options: Any) -> str:
    with pytest.raises(InvalidValue) as refused:
        define(function, **options)
    return str(refused.value)


def test_a_task_of_which_nothing_is_said_has_the_defaults_of_the_docs() -> None:
    found = define(send)
    assert (found.name, found.queue, found.priority, found.title) == ("send", "default", 0, "")
    assert found.retry == Retry()
    assert (found.timeout, found.memory, found.on_failure) == (None, None, None)
    assert (found.grace, found.keep_result) == (timedelta(seconds=10), timedelta(days=7))
    assert (found.aliases, found.limits, found.needs) == ((), (), {})
    assert found.where == f"test_definition.py:{send.__code__.co_firstlineno}"


def test_choices_are_kept_as_values() -> None:
    found = define(
        send,
        name="mail",
        aliases=["post", "mail", "post"],
        title="to {to}",
        queue="slow",
        priority="high",
        retry=None,
        timeout="10m",
        grace=timedelta(seconds=3),
        executor="process",
        memory="2GB",
        limits=[Limit("crm:{to}", concurrency=1)],
        needs={"gpu": 1},
        keep_result=None,
        on_success="tidy",
        on_failure=SimpleNamespace(name="tell_ops"),
    )
    assert (found.name, found.aliases, found.names) == ("mail", ("post",), ("mail", "post"))
    assert (found.queue, found.priority, found.title) == ("slow", 50, "to {to}")
    assert found.retry is NEVER
    assert (found.timeout, found.grace) == (timedelta(minutes=10), timedelta(seconds=3))
    assert (found.executor, found.memory) == ("process", 2_000_000_000)
    assert (found.needs, found.keep_result) == ({"gpu": 1}, None)
    assert (found.on_success, found.on_failure, found.on_cancelled) == ("tidy", "tell_ops", None)


@pytest.mark.parametrize(
    ("asked", "priority"),
    [("high", 50), ("normal", 0), ("low", -50), ("idle", -100), (100, 100), (-100, -100)],
)
def test_a_priority_is_a_word_or_a_number(asked: Any, priority: int) -> None:  # noqa: ANN401
    assert define(send, priority=asked).priority == priority


@pytest.mark.parametrize(
    ("asked", "size"),
    [("500MB", 500_000_000), ("2 GiB", 2**31), ("1.5GB", 1_500_000_000), ("1TB", 10**12)],
)
def test_memory_is_counted_in_thousands_or_in_1024s(asked: str, size: int) -> None:
    assert define(send, executor="process", memory=asked).memory == size


@pytest.mark.parametrize(
    ("function", "executor", "chosen"),
    [
        (send, None, "thread"),
        (fetch, None, "async"),
        (AsyncSender(), None, "async"),
        (Sender(), None, "thread"),
        (partial(fetch, "x"), None, "async"),
        (fetch, "process", "process"),
        (send, "thread", "thread"),
    ],
)
def test_a_function_runs_in_a_thread_and_a_coroutine_on_the_loop_unless_said(
    function: Callable[..., object],
    executor: Any,  # noqa: ANN401
    chosen: str,
) -> None:
    found = define(function, name="task", executor=executor)
    assert (found.executor, found.is_async) == (chosen, "sync" in chosen or function is fetch)


def test_a_timeout_that_cannot_be_kept_is_refused_with_three_ways_out() -> None:
    assert refusal(timeout="10m") == (
        'send: a thread cannot be stopped: use executor="process" (killed after 10m), or '
        'executor="thread" (only reported), or make the function async'
    )


@pytest.mark.parametrize(
    ("function", "executor"), [(send, "process"), (send, "thread"), (fetch, None)]
)
def test_a_timeout_is_taken_where_it_is_known_what_it_means(
    function: Callable[..., object],
    executor: Any,  # noqa: ANN401
) -> None:
    assert define(function, timeout="10m", executor=executor).timeout == timedelta(minutes=10)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": ""}, "name: a name must not be empty"),
        ({"name": 5}, "name=5: a name must be a string"),
        ({"name": "a\0"}, "contains a NUL"),
        ({"aliases": "old"}, "send: aliases='old': expected several names, as aliases=(\"old\",)"),
        ({"aliases": [5]}, "send: aliases=5: a name must be a string"),
        ({"queue": ""}, "send: queue: a name must not be empty"),
        ({"title": "{nobody}"}, 'send: title: there is no parameter "nobody"; the task is send('),
        (
            {"priority": "urgent"},
            'send: priority=\'urgent\': expected "high", "normal", "low", "idle", or',
        ),
        ({"priority": 101}, "from -100 to 100 (higher runs sooner)"),
        ({"priority": True}, "priority=True"),
        ({"retry": 5}, "send: retry=5: expected retry=Retry(attempts=5), or None for no retries"),
        ({"timeout": 30}, 'send: timeout=30: a unit is missing: write "30s" or "30m"'),
        ({"timeout": "0s"}, 'timeout="0s": expected more than 0s'),
        ({"timeout": timedelta(-1)}, "more than 0s"),
        ({"grace": "2h"}, 'send: grace="2h": expected from 0s, up to 1h'),
        ({"keep_result": "0s"}, 'keep_result="0s": expected more than 0s'),
        ({"executor": "fork"}, "executor='fork': choose one of async, thread, process"),
        ({"executor": "async"}, "with a plain function would block every other task"),
        ({"memory": "2GB"}, 'memory="2GB": only a process can have a memory limit: use executor='),
        ({"memory": "2", "executor": "process"}, 'write it as "500MB", "2GB" or "2GiB"'),
        ({"memory": 2, "executor": "process"}, "memory=2: write it as"),
        ({"memory": "1MB", "executor": "process"}, "the minimum is 16MB"),
        ({"limits": Limit("a", concurrency=1)}, "expected a list"),
        ({"limits": "crm"}, "expected a list"),
        ({"limits": ["crm"]}, "limits: 'crm' is not a Limit, as Limit("),
        ({"limits": [Limit("crm:{id}", rate="5/s")]}, 'Limit("crm:{id}"): there is no parameter'),
        (
            {"limits": [Limit("a", concurrency=1), Limit("a", rate="5/s")]},
            "two limits have the same name",
        ),
        (
            {"limits": [Limit(f"a{n}", concurrency=1) for n in range(9)]},
            "9 limits: a task can have at most 8",
        ),
        ({"needs": ["gpu"]}, 'resources with their amounts, as {"gpu": 1}'),
        ({"needs": {"gpu": 0}}, 'needs: "gpu" is 0: an amount is a whole number from 1'),
        ({"needs": {"": 1}}, "needs: a name must not be empty"),
        ({"on_failure": 5}, "send: on_failure=5: expected a task, or the name of one"),
        ({"takes_context": True, "title": "{to}"}, 'there is no parameter "to"'),
    ],
    ids=str,
)
def test_a_choice_that_cannot_be_kept_is_refused(options: dict[str, Any], said: str) -> None:
    assert said in refusal(**options)


def test_an_async_function_does_not_run_in_a_thread() -> None:
    assert (
        'fetch: executor="thread" with an async function, which runs on the event loop'
        in refusal(fetch, executor="thread")
    )


def test_the_most_limits_are_as_many_as_a_job_can_carry() -> None:
    limits = [Limit(f"a{n}", concurrency=1) for n in range(MOST_LIMITS)]
    assert define(send, limits=limits).limits == tuple(limits)


@pytest.mark.parametrize("function", [count, follow])
def test_a_function_that_yields_is_no_task(function: Callable[..., object]) -> None:
    assert "it is a generator, and a task must return" in refusal(function)


@pytest.mark.parametrize("function", [lambda: None, partial(send), Sender()])
def test_what_has_no_name_needs_one(function: Callable[..., object]) -> None:
    assert "has no name: give the task one with name=" in refusal(function)
    assert define(function, name="given").name == "given"


def test_what_cannot_be_called_is_no_task() -> None:
    assert "is not a function" in refusal("send")  # type: ignore[arg-type]


def test_a_template_may_name_what_kwargs_take() -> None:
    def any_way(**more: int) -> None: ...

    assert define(any_way, title="{colour}").title == "{colour}"


def test_a_title_shows_no_secret() -> None:
    def ask(model: str, token: str, max_tokens: int) -> None: ...

    found = define(ask, title="{{{model}}} {{token}} {token} {max_tokens}")
    assert found.title == "{{{model}}} {{token}} *** {max_tokens}"


def test_two_definitions_of_one_function_are_not_one() -> None:
    assert isinstance(define(send), Definition)
    assert define(send) != define(send)
