"""Tasks of Django's Tasks API."""

from typing import Any

from django_tasks import task


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
