"""``duly.jobs``: jobs by their numbers, and failed ones by what they have in common."""

from datetime import datetime
from typing import Any, TypedDict, Unpack

from duly.app.home import Home
from duly.app.jobs import Job, Sight
from duly.errors import NotFound
from duly.registry.registry import Registry
from duly.store.protocol import Store


class Matching(TypedDict, total=False):
    """What failed jobs have in common; ``error`` is a part of what they say."""

    task: str | None
    queue: str | None
    tenant: str | None
    error: str | None
    since: datetime | None


class Jobs:
    def __init__(self, registry: Registry, home: Home) -> None:
        self._registry = registry
        self._home = home

    def get(self, number: int, /) -> Job[Any]:
        return self._home.call(lambda store: self._get(store, number), twin="duly.jobs.aget()")

    async def aget(self, number: int, /) -> Job[Any]:
        return await self._get(await self._home.store(), number)

    def count_failed(self, **matching: Unpack[Matching]) -> int:
        """How many ``retry`` would find."""
        return self._home.call(
            lambda store: store.jobs.count_failed(**matching), twin="duly.jobs.acount_failed()"
        )

    async def acount_failed(self, **matching: Unpack[Matching]) -> int:
        return await (await self._home.store()).jobs.count_failed(**matching)

    def retry(self, *, first: int | None = None, **matching: Unpack[Matching]) -> list[int]:
        """Give failed jobs another chance, the oldest first: their numbers.

        ``first=5`` tries five of them, to see whether what was wrong is mended.
        """
        return self._home.call(
            lambda store: store.jobs.retry_matching(first=first, **matching),
            twin="duly.jobs.aretry()",
        )

    async def aretry(self, *, first: int | None = None, **matching: Unpack[Matching]) -> list[int]:
        store = await self._home.store()
        return await store.jobs.retry_matching(first=first, **matching)

    async def _get(self, store: Store, number: int) -> Job[Any]:
        found = await store.jobs.get(number)
        if found.task not in self._registry:
            raise NotFound(f"job {number} is of the task {found.task}, which this app has not")
        attempts = await store.jobs.attempts(number)
        definition = self._registry.get(found.task)
        return Job(self._home, number, Sight.of(found, attempts), definition)
