"""A pool of real children, and proof that nothing is left of it."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from duly.engine.executors.process.pool import ProcessPool
from duly.events import ChildNotStarted
from tests.engine.executors.calling import CHORES

Open = Callable[..., ProcessPool]


@pytest.fixture(autouse=True)
def no_descriptor_is_left_behind() -> Iterator[None]:
    before = descriptors()
    yield
    assert descriptors() - before == set()


@pytest.fixture
def told() -> list[ChildNotStarted]:
    return []


@pytest.fixture
async def open_pool(told: list[ChildNotStarted]) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        def opened(**options: object) -> ProcessPool:
            asked = {"target": str(CHORES), "size": 2, "emit": told.append, **options}
            pool = ProcessPool(**asked)  # type: ignore[arg-type]
            stack.push_async_callback(close, pool)
            return pool

        yield opened


@pytest.fixture
async def pool(open_pool: Open) -> ProcessPool:
    return open_pool()


async def close(pool: ProcessPool) -> None:
    pids = pool.pids()
    await pool.close()
    assert pool.pids() == []
    assert [pid for pid in pids if is_listed(pid)] == [], "not even as a zombie"


def is_listed(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def descriptors() -> set[tuple[str, str]]:
    found = set()
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            found.add((entry, os.readlink(f"/proc/self/fd/{entry}")))  # noqa: PTH115
        except OSError:  # the one that we list them with
            continue
    return found
