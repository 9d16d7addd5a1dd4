"""Hears what the store tells a worker, and holds it against what was seen to be written."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from duly.model.states import State
from duly.model.worker import Profile, WorkerInfo
from duly.store.values import ClaimRequest, FinishedAndClaimed, JobDone, Settled, Settlement
from duly.store.work import WorkStore
from tests.simulation.world import Host, World


class Witness:
    """Between a worker and the store; everything else goes through as it is."""

    def __init__(self, world: World, host: Host, work: WorkStore) -> None:
        self._world = world
        self._host = host
        self._work = work

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store can do
        return getattr(self._work, name)

    async def register(self, profile: Profile, *, lease: timedelta) -> WorkerInfo:
        info = await self._work.register(profile, lease=lease)
        self._world.workers[info.id] = self._host
        return info

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        settled = await self._work.settle(settlements)
        states = {one.job.id: (one.job.fence, one.verdict.state) for one in settlements}
        self._told(states, settled.kept)
        self._world.sometimes["unknown commit resolved"] += len(settled.before)
        return settled

    async def finish_and_claim(
        self, done: Sequence[JobDone], request: ClaimRequest | None = None
    ) -> FinishedAndClaimed:
        turn = await self._work.finish_and_claim(done, request)
        self._told({one.id: (one.fence, State.SUCCEEDED) for one in done}, turn.kept)
        return turn

    def _told(self, asked: dict[int, tuple[int, State]], kept: Iterable[int]) -> None:
        for number in kept:
            fence, state = asked[number]
            became = self._world.checkers.settled.get((number, fence))
            if became is not state:
                self._world.violated(
                    f"{self._host.name} was told that job {number} is {state} by its fence "
                    f"{fence}, and by that it became {became}"
                )
