"""After every test: no thread is left that would keep the program alive, and no task is pending."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Iterator

import pytest


@pytest.fixture(autouse=True)
def no_thread_is_left_behind() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread for thread in set(threading.enumerate()) - before if outlives_us(thread)]
    assert not left, f"the test left threads behind: {left}"


@pytest.fixture(autouse=True)
def no_task_is_left_behind(request: pytest.FixtureRequest, no_thread_is_left_behind: None) -> None:
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("every_task_is_done")


@pytest.fixture
async def every_task_is_done() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"the test left tasks behind: {left}"


def outlives_us(thread: threading.Thread) -> bool:
    if thread.daemon:
        return False
    thread.join(timeout=1)  # it may be on its way out
    return thread.is_alive()
