"""A node: the real engine and a worker, in a process that may die and be started again."""

import asyncio
from datetime import timedelta

from duly.engine.dispatcher import Dispatcher
from duly.engine.loop import Limits, Loop, Service
from duly.engine.pruner import Pruner
from duly.engine.reaper import Reaper
from duly.engine.scheduler import Scheduler
from duly.errors import StoreUnavailable
from duly.events import (
    ClockDistrusted,
    Event,
    ScheduleFaulted,
    ServiceRestarted,
    TickFailed,
    TickStalled,
)
from duly.store.sql_store import SqlStore
from duly.testing.simulate.database import SimulatedDatabase
from duly.testing.simulate.worker import Worker
from duly.testing.simulate.world import Host, World


class Node:
    """One of the world's nodes, through all its incarnations."""

    def __init__(self, world: World, name: str) -> None:
        self.host: Host | None = None
        self._world = world
        self._name = name
        self._born = 0
        self._life: asyncio.Task[None] | None = None
        self._stays_down = False

    @property
    def up(self) -> bool:
        return self.host is not None and self.host.alive

    def start(self) -> None:
        self._stays_down = False
        if self.up:
            return
        self._born += 1
        self._world.sometimes["restart"] += self._born > 1
        host = self._world.host(f"{self._name}.{self._born}")
        host.crash = self.crash
        self.host = host
        self._world.tell(host.name, "starts")
        self._life = self._world.loop.create_task(self._live(host), name=host.name)
        self._life.add_done_callback(self._ended)

    def crash(self, *, for_good: bool = False) -> None:
        """Nothing of it goes on, and nothing is cleaned up. It may be started again."""
        self._stays_down = for_good
        if self.host is None or not self.host.alive or self._life is None:
            return
        self._world.tell(self.host.name, "crashes")
        self._world.sometimes["crash"] += 1
        self.host.alive = False
        self._life.cancel()
        down = self._world.dice.random() * self._world.knobs.lease * 1.5
        self._world.loop.call_later(down, self._restart)

    def _restart(self) -> None:
        if not self._stays_down:
            self.start()

    async def _live(self, host: Host) -> None:
        world, knobs = self._world, self._world.knobs
        store = SqlStore(SimulatedDatabase(world, host))
        worker = Worker(world, host, store)
        limits = Limits(tick=timedelta(seconds=knobs.tick), poll=timedelta(seconds=knobs.poll))
        loop = Loop(
            self._services(store, host), dice=world.dice.random, emit=self._hear, limits=limits
        )
        # It has nothing to do for days: asking it as often as the others would be most of the work.
        rarely = Limits(tick=limits.tick, poll=timedelta(minutes=1))
        pruner = Loop(
            [Pruner(store, emit=self._hear)], dice=world.dice.random, emit=self._hear, limits=rarely
        )
        store.listen(loop.nudge)
        store.listen(worker.nudge)
        async with asyncio.TaskGroup() as group:
            group.create_task(loop.run())
            group.create_task(pruner.run())
            group.create_task(worker.run())

    def _services(self, store: SqlStore, host: Host) -> list[Service]:
        knobs, batch = self._world.knobs, self._world.knobs.batch
        margin = timedelta(seconds=knobs.margin)
        services: list[Service] = [
            Scheduler(store, emit=self._hear, batch=batch, steady=host.steady),
            Dispatcher(store, emit=self._hear, batch=batch, steady=host.steady),
            Reaper(store, emit=self._hear, batch=batch, margin=margin),
        ]
        return [one for one in services if one.name not in self._world.sabotage.without]

    def _hear(self, event: Event) -> None:
        world = self._world
        match event:
            case TickFailed(service, error) if not isinstance(error, StoreUnavailable):
                if self.up:
                    world.violated(f"{self._name}'s {service} failed: {error!r}")
            case ClockDistrusted():
                world.sometimes["clock distrusted"] += 1
            case TickStalled() | ServiceRestarted():
                world.sometimes["tick stalled"] += 1
            case ScheduleFaulted(name, reason):
                world.violated(f'schedule "{name}" was set aside: {reason}')
            case _:
                pass

    def _ended(self, life: asyncio.Task[None]) -> None:
        error = None if life.cancelled() else life.exception()
        if not life.cancelled() and life is self._life and self.up:
            self._world.violated(f"{self._name} ended by itself: {error!r}")
