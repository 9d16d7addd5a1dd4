"""Ends remote jobs whose jobs have ended while no worker held them.

A worker that is killed, or stops for a deploy, leaves its remote jobs to the next worker. If such a
job is cancelled, expires or fails before another worker has claimed it, nobody waits for its remote
job any more. Each worker that knows the task looks for them: once when it starts, and every minute.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar, Final

from duly.clock import Timeout, boottime
from duly.engine.executors.on_engine import family_of
from duly.errors import StoreUnavailable
from duly.events import Emit, RemoteJobEnded, RemoteJobsUnseen
from duly.instants import to_us
from duly.model.job import StoredJob
from duly.model.job_filter import Filter
from duly.model.states import ENDED, State
from duly.registry.definition import Definition
from duly.registry.registry import Registry
from duly.store.store import Store

EVERY: Final = timedelta(minutes=1)
FIRST_LOOK: Final = timedelta(days=1)  # how far the first look goes back
LONGEST_LOOK: Final = 20.0  # seconds; the loop stops a tick after 30
PAGE: Final = 100


class Leftovers:
    """Looks for remote jobs of jobs that ended since the last look."""

    name = "leftovers"
    topics: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, store: Store, registry: Registry, *, emit: Emit) -> None:
        self._store = store
        self._emit = emit
        self._looked: dict[str, float] = {}  # by task: when, on the steady clock
        self._tasks: Mapping[str, Definition] = {
            name: one for one in registry if one.engine is not None for name in one.names
        }

    @property
    def are_possible(self) -> bool:
        return bool(self._tasks)

    async def tick(self) -> timedelta:
        await asyncio.gather(*(self._try(*one) for one in self._tasks.items()))
        return EVERY

    async def _try(self, task: str, definition: Definition) -> None:
        began = boottime()
        try:
            async with Timeout(LONGEST_LOOK):  # an end may take as long as the grace of the task
                await self._look(task, definition)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the next look goes back as far as this one
            self._emit(RemoteJobsUnseen(task=task, problem=str(error) or "no answer in time"))
        else:
            self._looked[task] = began

    async def _look(self, task: str, definition: Definition) -> None:
        looked = self._looked.get(task)
        since = FIRST_LOOK if looked is None else timedelta(seconds=boottime() - looked) + EVERY
        ended = (State.CANCELLED, State.FAILED, State.EXPIRED)
        wanted, after = Filter(task=task, states=ended, since=since), None
        while True:
            page = await self._store.jobs.find(wanted, after=after, limit=PAGE)
            for job in filter(_was_left, page.jobs):
                await self._end(job, definition)
            if (after := page.after) is None:
                return

    async def _end(self, job: StoredJob, definition: Definition) -> None:
        assert definition.engine is not None  # noqa: S101 - for the type checker
        for key in await definition.engine.keys(family_of(job.id, to_us(job.created_at), job.task)):
            # Somebody may have retried it by hand meanwhile.
            if (await self._store.jobs.get(job.id)).state in ENDED:
                await definition.engine.end(key, definition.grace)
                self._emit(RemoteJobEnded(job=job.id, key=key))


def _was_left(job: StoredJob) -> bool:
    """Return whether a worker had claimed the job, and the job was not ended by that worker."""
    return job.fence > 0 and (job.worker is None or job.crashes > 0)
