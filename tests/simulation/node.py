"""A node: the real engine and a real worker, in a process that may die and be started again."""

import asyncio
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

from duly.engine.claim_planner import ClaimPlanner
from duly.engine.claimer import Claimer
from duly.engine.death_watch import DeathWatch
from duly.engine.executors import Executor
from duly.engine.journal_writer import JournalWriter
from duly.engine.loop import Loop, LoopLimits, Service
from duly.engine.maintenance import Dispatcher, Pruner, Reactor, Reaper
from duly.engine.runner import ALONE
from duly.engine.scheduler import Scheduler
from duly.engine.timekeeper import Caution, Timekeeper
from duly.engine.worker import Worker, WorkerOptions
from duly.store.store import SqlStore
from duly.store.work import WorkStore
from tests.simulation.database import SimulatedDatabase
from tests.simulation.ears import Ears
from tests.simulation.stage import Stage
from tests.simulation.tasks import QUEUES, REGISTRY, RESOURCE
from tests.simulation.witness import Witness
from tests.simulation.world import Host, World

# Ten minutes are longer than most stories.
PRUNING = Caution(patience=timedelta(seconds=30), watched=timedelta(seconds=30))


@dataclass(frozen=True, slots=True)
class Stops:
    """How a node is asked to end in order: once for warm, twice for cold."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self) -> None:
        (self.hurry if self.asked.is_set() else self.asked).set()


class Node:
    """One of the world's nodes, through all its incarnations."""

    def __init__(self, world: World, place: int) -> None:
        self.host: Host | None = None
        self._world = world
        self._place = place
        self._name = f"node {place + 1}"
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
        machines = self._world.knobs.machines
        machine = f"machine {self._place % machines}" if machines else ""
        host = self._world.host(f"{self._name}.{self._born}", machine)
        host.crash = self.crash
        self.host = host
        self._world.tell(host.name, "starts")
        life, context = self._live(host), host.context()
        self._life = self._world.loop.create_task(life, name=host.name, context=context)
        self._life.add_done_callback(self._ended)

    def crash(self, *, for_good: bool = False) -> None:
        """Nothing of it goes on, and nothing is cleaned up. It may be started again."""
        self._stays_down = for_good
        if self.host is None or not self.host.alive or self._life is None:
            return
        self._world.tell(self.host.name, "crashes")
        self._world.sometimes["crash"] += 1
        self.host.die()
        self._life.cancel()
        self._start_later()

    def _start_later(self) -> None:
        down = self._world.dice.random() * self._world.knobs.lease * 1.5
        self._world.loop.call_later(down, self._restart, context=Context())

    def _restart(self) -> None:
        if not self._stays_down:
            self.start()

    async def _live(self, host: Host) -> None:
        """Until it dies, or is asked to end."""
        world, knobs = self._world, self._world.knobs
        store = SqlStore(SimulatedDatabase(world, host))
        store.work = cast(WorkStore, Witness(world, host, store.work))
        stops, halt = Stops(), asyncio.Event()
        ears = Ears(world, host)
        worker = self._worker(store, host, stops, ears)
        limits = LoopLimits(tick=timedelta(seconds=knobs.tick), poll=timedelta(seconds=knobs.poll))
        timekeeper = host.timekeeper = Timekeeper(store, emit=ears.hear, steady=host.steady)
        services = [
            *self._services(store, host, ears, timekeeper, planner=worker.planner),
            *self._serving(worker, ears),
        ]
        loop = Loop(services, dice=world.dice.random, emit=ears.hear, limits=limits)
        # It has nothing to do for days: asking it as often as the others would be most of the work.
        rarely = LoopLimits(tick=limits.tick, poll=timedelta(minutes=1))
        pruner = Loop(
            [Pruner(store, emit=ears.hear, timekeeper=timekeeper, caution=PRUNING)],
            dice=world.dice.random,
            emit=ears.hear,
            limits=rarely,
        )
        store.listen(loop.nudge)
        await worker.start(loop.nudge)
        async with asyncio.TaskGroup() as group:
            group.create_task(loop.run(halt))
            group.create_task(pruner.run(halt))
            await stops.asked.wait()
            await worker.stop(stops.hurry)
            halt.set()
        self._end_in_order(host)

    def _end_in_order(self, host: Host) -> None:
        self._world.tell(host.name, "ends in order")
        self._world.sometimes["stopped in order"] += 1
        host.die()
        self._start_later()

    def _worker(self, store: SqlStore, host: Host, stops: Stops, ears: Ears) -> Worker:
        world, knobs = self._world, self._world.knobs

        def executors(journal: JournalWriter) -> dict[str, Executor]:
            stage = Stage(world, host, journal)
            alone: dict[str, Executor] = {}
            if knobs.isolates:
                alone[ALONE] = Stage(world, host, journal, alone=True)
            return {"async": stage, "thread": stage, "process": stage, **alone}

        options = WorkerOptions(
            name=host.name,
            queues=QUEUES,
            concurrency=knobs.slots,
            resources={RESOURCE: 2} if self._place == 0 else {},
            lease=knobs.lease_length,
            host=host.identity,
        )
        return Worker(
            store,
            REGISTRY,
            options,
            executors=executors,
            dice=world.dice.random,
            on_stop=stops.ask,
            emit=ears.hear,
            time=host.steady,
        )

    def _serving(self, worker: Worker, ears: Ears) -> Sequence[Service]:
        """The services of a worker, of which the second claimer is keener than in life."""

        def keen() -> bool:
            return worker.planner.busy > 0 and self._world.chance(0.3)

        first, _, *others = worker.services
        return [first, Claimer(worker.planner, first=False, emit=ears.hear, enough=keen), *others]

    def _services(
        self,
        store: SqlStore,
        host: Host,
        ears: Ears,
        timekeeper: Timekeeper,
        *,
        planner: ClaimPlanner,
    ) -> list[Service]:
        world, knobs, batch = self._world, self._world.knobs, self._world.knobs.batch
        margin = timedelta(seconds=knobs.margin)
        emit, steady = ears.hear, host.steady
        services: list[Service] = [
            timekeeper,
            Scheduler(
                store,
                planner=planner,
                emit=emit,
                batch=batch,
                timekeeper=timekeeper,
                steady=steady,
            ),
            Dispatcher(store, emit=emit, batch=batch, timekeeper=timekeeper, steady=steady),
            Reactor(store, emit=emit, batch=batch, timekeeper=timekeeper),
            Reaper(
                store,
                emit=emit,
                batch=batch,
                margin=margin,
                timekeeper=timekeeper,
                caution=Caution.about_leases(knobs.lease_length),
            ),
            DeathWatch(
                store,
                emit=emit,
                here=host.identity,
                is_dead=lambda other: not world.processes[other].alive,
                is_here=lambda other: world.processes[other.profile.host].alive,
                steady=steady,
            ),
        ]
        return [one for one in services if one.name not in world.sabotage.without]

    def _ended(self, life: asyncio.Task[None]) -> None:
        error = None if life.cancelled() else life.exception()
        if not life.cancelled() and life is self._life and self.up:
            self._world.violated(f"{self._name} ended by itself: {error!r}")
