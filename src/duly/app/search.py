"""``duly.jobs``: jobs by their numbers, and by what they have in common.

What they have in common is said in words, as ``"state:failed queue:mail since:2h"``; see
``duly.model.filter``.
"""

from collections.abc import Sequence
from typing import Any

from duly.app.home import Home
from duly.app.jobs import Job, Sight
from duly.app.why import why_job
from duly.model import job as model
from duly.model.filter import Filter, parse_filter
from duly.model.job import Attempt
from duly.registry.registry import Registry
from duly.store.protocol import Store


class Jobs:
    def __init__(self, registry: Registry, home: Home) -> None:
        self._registry = registry
        self._home = home

    def get(self, number: int, /) -> Job[Any]:
        return self._home.call(lambda store: self._get(store, number), twin="duly.jobs.aget()")

    async def aget(self, number: int, /) -> Job[Any]:
        return await self._get(await self._home.store(), number)

    def list(
        self, words: str = "", /, *, after: int | None = None, limit: int = 100
    ) -> "Sequence[Job[Any]]":
        """Jobs that match, alive or ended, the highest number first; about the newest, that is.

        ``after`` is the number of the last one that is known: what follows is the next page. Their
        attempts are not among what is known of them: ``refresh()`` looks.
        """
        wanted = parse_filter(words)
        return self._home.call(
            lambda store: self._list(store, wanted, after=after, limit=limit),
            twin="duly.jobs.alist()",
        )

    async def alist(
        self, words: str = "", /, *, after: int | None = None, limit: int = 100
    ) -> "Sequence[Job[Any]]":
        wanted = parse_filter(words)
        return await self._list(await self._home.store(), wanted, after=after, limit=limit)

    def count(self, words: str = "", /, *, at_most: int = 10_000) -> int:
        """How many match; ``at_most`` means that there are as many or more."""
        wanted = parse_filter(words)
        return self._home.call(
            lambda store: store.jobs.count(wanted, at_most=at_most), twin="duly.jobs.acount()"
        )

    async def acount(self, words: str = "", /, *, at_most: int = 10_000) -> int:
        wanted = parse_filter(words)
        return await (await self._home.store()).jobs.count(wanted, at_most=at_most)

    def cancel(self, words: str, /, *, reason: str = "") -> "Sequence[int]":
        """End those that match and wait; ask those that run to end. Their numbers."""
        wanted = parse_filter(words)
        return self._home.call(
            lambda store: store.jobs.cancel_found(wanted, reason=reason),
            twin="duly.jobs.acancel()",
        )

    async def acancel(self, words: str, /, *, reason: str = "") -> "Sequence[int]":
        wanted = parse_filter(words)
        return await (await self._home.store()).jobs.cancel_found(wanted, reason=reason)

    def remove(self, words: str, /) -> "Sequence[int]":
        """Forget those that match and have ended, with all that is known about them. Their numbers.

        What has not ended is not among them: cancel it first.
        """
        wanted = parse_filter(words)
        return self._home.call(
            lambda store: store.jobs.remove_found(wanted), twin="duly.jobs.aremove()"
        )

    async def aremove(self, words: str, /) -> "Sequence[int]":
        wanted = parse_filter(words)
        return await (await self._home.store()).jobs.remove_found(wanted)

    def why(self, number: int, /) -> str:
        """What became of a job, or why nothing has yet."""
        return self._home.call(lambda store: why_job(store, number), twin="duly.jobs.awhy()")

    async def awhy(self, number: int, /) -> str:
        return await why_job(await self._home.store(), number)

    def retry(self, words: str = "", /, *, first: int | None = None) -> "Sequence[int]":
        """Give failed jobs that match another chance, the oldest first: their numbers.

        The oldest is what failed before the others, whenever it was enqueued. ``first=5`` tries
        five of them, to see whether what was wrong is mended.
        """
        wanted = parse_filter(words)
        return self._home.call(
            lambda store: store.jobs.retry_found(wanted, first=first), twin="duly.jobs.aretry()"
        )

    async def aretry(self, words: str = "", /, *, first: int | None = None) -> "Sequence[int]":
        wanted = parse_filter(words)
        return await (await self._home.store()).jobs.retry_found(wanted, first=first)

    async def _get(self, store: Store, number: int) -> Job[Any]:
        found = await store.jobs.get(number)
        return self._job(found, await store.jobs.attempts(number))

    async def _list(
        self, store: Store, wanted: Filter, *, after: int | None, limit: int
    ) -> "Sequence[Job[Any]]":
        found = await store.jobs.find(wanted, after=after, limit=limit)
        return [self._job(one, ()) for one in found]

    def _job(self, found: model.Job, attempts: Sequence[Attempt]) -> Job[Any]:
        """A job of a task that this app has not is one all the same; only its result is not."""
        known = found.task in self._registry
        definition = self._registry.get(found.task) if known else None
        return Job(self._home, found.id, Sight.of(found, attempts), definition)
