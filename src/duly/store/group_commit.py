"""Group commit: jobs that are enqueued at the same time are written together.

A call that finds nobody writing writes at once, in its own task: two passes of the event loop less
than through a task and a future. Calls that arrive meanwhile form the next batch: a single caller
does not wait, and a hundred callers share one commit. Only for calls without a key, which cannot
conflict.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import TypeAlias

from duly.errors import StoreUnavailable
from duly.model.job import JobRequest

MOST = 5_000

# The requested jobs, and the future that receives their ids when they are written.
Asked: TypeAlias = tuple[Sequence[JobRequest], "asyncio.Future[list[int]]"]


class GroupCommit:
    def __init__(self, write: Callable[[Sequence[JobRequest]], Awaitable[list[int]]]) -> None:
        self._write = write
        self._waiting: list[Asked] = []
        self._writing = False
        self._rest: asyncio.Task[None] | None = None

    async def add(self, calls: Sequence[JobRequest]) -> list[int]:
        """Return the numbers of the jobs when they are written, or raise the reason why not."""
        if self._writing:
            written: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
            self._waiting.append((calls, written))
            return await written
        self._writing = True
        try:
            return await self._write(calls)
        finally:
            if self._waiting:
                self._rest = asyncio.get_running_loop().create_task(self._work())
            else:
                self._writing = False

    async def _work(self) -> None:
        try:
            while batch := self._next():
                await self._together(batch)
        finally:
            self._writing = False

    def _next(self) -> list[Asked]:
        """Return as many calls as fit into one statement; cancelled ones are left out."""
        batch: list[Asked] = []
        count = 0
        while self._waiting and (not batch or count + len(self._waiting[0][0]) <= MOST):
            calls, written = self._waiting.pop(0)
            if not written.done():
                batch.append((calls, written))
                count += len(calls)
        return batch

    async def _together(self, batch: Sequence[Asked]) -> None:
        try:
            numbers = iter(await self._write([call for calls, _ in batch for call in calls]))
        except StoreUnavailable as error:
            for _, written in batch:  # no single call caused it: each alone would fail too
                _refuse(written, error)
        except Exception as error:  # noqa: BLE001 - it belongs to who asked
            if len(batch) == 1:
                _refuse(batch[0][1], error)
                return
            # One of the calls may have caused it, and the others must not fail with it.
            for one in batch:
                await self._together([one])
        else:
            for calls, written in batch:
                mine = list(islice(numbers, len(calls)))
                if not written.done():
                    written.set_result(mine)


def _refuse(written: "asyncio.Future[list[int]]", error: Exception) -> None:
    if not written.done():
        written.set_exception(error)
