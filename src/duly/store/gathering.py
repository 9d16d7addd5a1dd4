"""Jobs that are asked for at the same time are written together.

What comes while a batch is being written is the next batch: one caller waits for nobody, and a
hundred callers pay for one commit. Only for calls without a key, which cannot get in each other's
way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from duly.errors import StoreUnavailable
from duly.store.jobs import Wanted

MOST = 5_000

# What somebody asked for, and what tells them that it is written.
Asked: TypeAlias = tuple[Sequence[Wanted], "asyncio.Future[None]"]


class Gathering:
    def __init__(self, write: Callable[[Sequence[Wanted]], Awaitable[object]]) -> None:
        self._write = write
        self._waiting: list[Asked] = []
        self._writer: asyncio.Task[None] | None = None

    async def add(self, wanted: Sequence[Wanted]) -> None:
        """Return when they are written, or raise what prevented it."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, written))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._work())
        await written

    async def _work(self) -> None:
        try:
            while batch := self._next():
                await self._together(batch)
        finally:
            self._writer = None

    def _next(self) -> list[Asked]:
        """As many as fit into one statement; who has gone away is not written."""
        batch: list[Asked] = []
        count = 0
        while self._waiting and (not batch or count + len(self._waiting[0][0]) <= MOST):
            wanted, written = self._waiting.pop(0)
            if not written.done():
                batch.append((wanted, written))
                count += len(wanted)
        return batch

    async def _together(
        self, batch: Sequence[tuple[Sequence[Wanted], asyncio.Future[None]]]
    ) -> None:
        try:
            await self._write([one for wanted, _ in batch for one in wanted])
        except StoreUnavailable as error:
            for _, written in batch:  # it is nobody's fault, and would be the same for each alone
                _settle(written, error)
        except Exception as error:  # noqa: BLE001 - it belongs to who asked
            if len(batch) == 1:
                _settle(batch[0][1], error)
                return
            # It may be the fault of one of them, and the others do not have to pay for it.
            for one in batch:
                await self._together([one])
        else:
            for _, written in batch:
                _settle(written, None)


def _settle(written: "asyncio.Future[None]", error: Exception | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
