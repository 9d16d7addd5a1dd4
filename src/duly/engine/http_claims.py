"""Where a guest looks for work: as one of our own workers does, in the same order of places."""

import asyncio
from collections.abc import Sequence
from typing import Final

from duly.clock import boottime
from duly.engine.claim_planner import ClosedQueues, QueueRotation, QueueShelf
from duly.errors import StoreUnavailable, WrongState
from duly.model.claimed import Claimed
from duly.model.worker import WorkerInfo
from duly.store.store import Store
from duly.store.values import CAREFUL, SHELVES, SUSPECT, Claims, Wish

POLL_SECONDS: Final = 0.5


class HttpClaims:
    def __init__(self, info: WorkerInfo) -> None:
        self.worker = info.id
        self.profile = info.profile
        self._rotation = QueueRotation(info.profile.queues)
        self._closed = ClosedQueues(boottime)
        self._in_vain: dict[QueueShelf, float] = {}  # places to be left alone until then
        self._tenant: dict[str, str] = {}
        self._looking = asyncio.Lock()  # two at once would take more than there are slots

    @property
    def pause(self) -> float:
        """How long nobody need look again, unless there is news."""
        look = self._closed.next_look()
        return POLL_SECONDS if look is None else min(POLL_SECONDS, look.total_seconds())

    def hint(self, queue: str) -> None:
        """Something became ready there; or anywhere, if it has no name."""
        self._in_vain = {
            place: until for place, until in self._in_vain.items() if queue and place.queue != queue
        }
        for name in [queue] if queue else self.profile.queues:
            self._closed.open(name)

    def check_room(self, held: Sequence[Claimed], *, slots: int) -> None:
        if len(held) >= slots:
            runs = ", ".join(str(job.id) for job in held[:10])
            raise WrongState(
                f"worker {self.worker} may run {slots} at once, and holds {len(held)} ({runs}): "
                "finish those first; what they are, work/held tells"
            )

    async def take(self, store: Store, limit: int, *, slots: int) -> list[Claimed]:
        """Claim as many, from as many places as it takes."""
        async with self._looking:
            self._rotation.seen(await store.work.ready(self._rotation.queues, self.profile.tasks))
            if self._rotation.knows_nothing:
                return []
            held = await store.work.held(self.worker)
            for queue in await store.work.queues():
                if queue.paused and queue.name in self.profile.queues:
                    self._pass_over(queue.name)
            return await self._taken(store, held, min(limit, slots - len(held)))

    async def _taken(self, store: Store, held: Sequence[Claimed], limit: int) -> list[Claimed]:
        taken: list[Claimed] = []
        while len(taken) < limit and (place := self._next([*held, *taken])) is not None:
            wish = self._wish(place, limit - len(taken), [*held, *taken])
            try:
                found = await store.work.claim(wish)
            except StoreUnavailable:
                if taken:
                    break
                raise
            self._came(found, wish, place)
            taken += found.jobs
        return taken

    def _pass_over(self, queue: str) -> None:
        for shelf in SHELVES:
            self._rotation.emptied(QueueShelf(queue, shelf))

    def _next(self, here: Sequence[Claimed]) -> QueueShelf | None:
        now = boottime()
        for place in [place for place, until in self._in_vain.items() if until > now]:
            self._rotation.emptied(place)
        # What went down with a worker runs one at a time: the next one may be what did it.
        suspects = not any(job.crashes for job in here)
        return self._rotation.next(suspects=suspects, shut=self._closed.shut_now())

    def _wish(self, place: QueueShelf, limit: int, here: Sequence[Claimed]) -> Wish:
        return Wish(
            worker=self.worker,
            queue=place.queue,
            tasks=self.profile.tasks,
            limit=1 if place.shelf == SUSPECT else limit,
            shelf=place.shelf,
            among=self._rotation.among(place),
            after=self._tenant.get(place.queue, ""),
            free=self._free(here) if place.shelf == CAREFUL else {},
        )

    def _free(self, here: Sequence[Claimed]) -> dict[str, int]:
        """The resources that are not in use."""
        free = dict(self.profile.resources)
        for job in here:
            for name, amount in job.needed.items():
                free[name] = free.get(name, 0) - amount
        return free

    def _came(self, found: Claims, wish: Wish, place: QueueShelf) -> None:
        if found.full:
            self._closed.shut(place.queue, found.opens_in)
        elif len(found.jobs) < wish.limit and not (wish.among and found.jobs):
            self._rotation.emptied(place)
        if found.jobs:
            self._tenant[place.queue] = found.jobs[-1].tenant
        else:
            # It is for others, who hear of every claim and would be answered by another one.
            self._in_vain[place] = boottime() + POLL_SECONDS
