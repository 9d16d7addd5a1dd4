"""A story, from its seed to its end: chaos, then healing, then the reckoning."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from duly.clock import sleep
from duly.engine.timekeeper import ORDINARY
from tests.simulation import liveness
from tests.simulation.faults import Storm
from tests.simulation.loop import Deadlock, TimeStandsStill
from tests.simulation.node import Node
from tests.simulation.workload import Workload
from tests.simulation.world import HONEST, Sabotage, World

MINUTES = 2.0
LATEST_LOOK = 5  # seconds until a node looks at the clock again
LONGEST_AWAY = 60  # … if it could not look at it for so long
HEALED = 150  # … after which nothing is left that nobody does
GLANCE = 5
CLIENTS = 2
DARK = (*[timedelta(minutes=20)] * 3, timedelta(hours=5), timedelta(days=3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a story ended."""

    seed: int
    wrong: Sequence[str]  # promises that were broken; none, if all is well
    steps: Sequence[str]  # the last ones
    digest: str
    sometimes: Counter[str]
    seconds: float  # of the world's time, without those in which everything was switched off


def play(seed: int, *, minutes: float = MINUTES, sabotage: Sabotage = HONEST) -> Ending:
    """Live through the story of a seed."""
    return Story(seed, minutes=minutes, sabotage=sabotage).play()


class Story:
    def __init__(self, seed: int, *, minutes: float, sabotage: Sabotage) -> None:
        self.world = World(seed, sabotage=sabotage)
        self._minutes = minutes
        self._dark = self._seconds = 0.0
        self._nodes = [Node(self.world, place) for place in range(self.world.knobs.nodes)]
        self._storm = Storm(self.world, self._nodes)
        self._workload = Workload(self.world)

    def play(self) -> Ending:
        world = self.world
        try:
            with _silent_logs(), world.sabotage.at_work(), world.loop:
                self._run()
        except BaseExceptionGroup as unseen:
            if not world.wrong:
                world.wrong.append(f"nobody looked at {unseen.exceptions!r}")
        if not world.wrong:
            self._reckon()
        world.connection.close()
        return Ending(
            seed=world.seed,
            wrong=world.wrong,
            steps=list(world.steps),
            digest=world.digest,
            sometimes=world.sometimes,
            seconds=self._seconds,
        )

    def _run(self) -> None:
        world = self.world
        try:
            world.loop.run_until_complete(self._happen())
        except (Deadlock, TimeStandsStill) as stuck:
            world.wrong.append(f"at {world.clock.now():%Y-%m-%d %H:%M:%S.%f}: {stuck}")
        except RuntimeError:
            if not world.wrong:  # which stops the loop
                raise
        self._seconds = world.loop.time() - self._dark
        world.over = True
        for host in world.hosts:
            host.alive = False
        self._storm.black_out()
        world.loop.run_until(world.loop.time())  # or a stop that was asked for comes too late

    async def _happen(self) -> None:
        world = self.world
        self._storm.light_up()
        await self._workload.begin()
        dark = world.chance(0.15)
        await self._scene(self._minutes * 60 * (0.5 if dark else 1))
        if dark:
            await self._night(world.dice.choice(DARK))
            await self._scene(self._minutes * 30)
        self._storm.pass_by()
        await self._workload.let_go()
        await self._heal()

    async def _scene(self, seconds: float) -> None:
        """Clients and faults for a while."""
        pace = self.world.dice.choice((0.3, 1.0, 4.0))
        acting: list[Awaitable[None]] = [self._storm.rage()]
        acting += [self._workload.go_on(pace) for _ in range(CLIENTS)]
        tasks = [asyncio.ensure_future(one) for one in acting]
        await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _night(self, length: timedelta) -> None:
        self.world.sometimes["blackout"] += 1
        self._storm.black_out()
        self._dark = length.total_seconds()
        await sleep(self._dark)
        self._storm.light_up()

    async def _heal(self) -> None:
        """Everything overdue is done soon, and everything else in the end."""
        world = self.world
        noticed = world.jumped_at + LONGEST_AWAY  # by whoever could not look at the clock before
        # Several jumps ahead are one to whoever has looked before the first of them.
        distrust = ORDINARY.wait(world.jumped_ahead) + LATEST_LOOK
        distrusted = distrust if world.loop.time() < noticed + distrust else 0
        await sleep(world.knobs.takes_over + distrusted)
        for found in liveness.overdue(world):
            world.violated(f"after healing, {found}")
        await self._workload.recall()
        for _ in range(HEALED // GLANCE):
            if not any(liveness.left_behind(world)):
                return
            await sleep(GLANCE)
        for found in (*liveness.overdue(world), *liveness.left_behind(world)):
            world.violated(f"long after healing, {found}")

    def _reckon(self) -> None:
        checkers = self.world.checkers
        broken = [
            *self._workload.broken(),
            *checkers.unpaired(),
            *checkers.events.unanswered(),
            *checkers.ledger.uncovered(),
        ]
        self.world.wrong += [f"at the end: {promise}" for promise in broken]


@contextmanager
def _silent_logs() -> Iterator[None]:
    """Workers that die do not take their ears off the log of this program."""
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        yield
    finally:
        root.handlers[:] = before
