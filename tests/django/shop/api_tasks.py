"""Tasks of Django's Tasks API."""

from importlib import import_module
from typing import Any

from tests.django.settings import TASKS_API

task: Any = import_module(TASKS_API).task


@task
def add(a: int, b: int) -> int:
    return a + b


@task(priority=5, queue_name="mail")
async def greet(name: str) -> str:
    return f"hello {name}"


@task(takes_context=True)
def attempts(context: Any) -> list[Any]:
    return [context.attempt, context.task_result.status]


@task
def broken() -> None:
    raise KeyError("nothing")


@task
def fails(kind: str) -> None:
    errors = {"ValueError": ValueError, "SystemExit": SystemExit}
    raise errors[kind](f"This task failed due to {kind}")


@task
def fails_in_a_complex_way() -> None:
    raise ValueError(ValueError("This task failed"))


@task
def returns_an_object() -> object:
    return lambda: None


@task
def nothing(*args: object, **kwargs: object) -> None: ...


@task
async def nothing_async(*args: object, **kwargs: object) -> None: ...
