"""Time limits, in whatever state the task is that sets one."""

import asyncio
import contextlib

import pytest

from duly.clock import Timeout


async def test_a_task_that_is_being_cancelled_can_limit_its_cleanup() -> None:
    ends: list[type[BaseException]] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                async with Timeout(0.01):
                    await asyncio.Event().wait()
            except BaseException as error:  # noqa: BLE001 - which one it is, is the question
                ends.append(type(error))

    task = asyncio.create_task(work())
    await asyncio.wait([task], timeout=0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == [TimeoutError]


async def test_who_is_cancelled_at_the_limit_is_cancelled() -> None:
    limit = Timeout(0)

    async def work() -> None:
        async with limit:
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_limit_that_was_reached_leaves_nobody_cancelled() -> None:
    task, limit = asyncio.current_task(), Timeout(0)
    with contextlib.suppress(KeyError):
        async with limit:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise KeyError from None
    assert limit.expired()
    assert task is not None
    assert task.cancelling() == 0
