"""A node: the services of one process on one store.

Any number of nodes may share a store, and none of them is special. A node may have no scheduler or
no worker; every node dispatches due jobs and takes back lost ones.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from duly.engine.death_watch import DeathWatch
from duly.engine.loop import Loop, Service, ServiceProgress
from duly.engine.maintenance import Dispatcher, Meter, Pruner, Reactor, Reaper
from duly.engine.reconciler import Reconciler
from duly.engine.scheduler import Scheduler
from duly.engine.timekeeper import Timekeeper
from duly.engine.worker import Worker
from duly.errors import StoreUnavailable
from duly.events import Emit, ignore_event
from duly.settings.tables import AlertSettings
from duly.store.maintenance import Retention
from duly.store.store import Store
from duly.store.values import WORKERS

# A service whose last good tick is older makes no progress.
LAGGING = timedelta(seconds=30)
# Services that work only now and then.
SELDOM = ("pruner", "retirement")
# Services that make new jobs. A node that stops ends them first: a job made now would wait, and the
# next moments of its schedule would be skipped because of it.
BEGIN = ("scheduler", "reconciler", "reactor")


@dataclass(frozen=True, slots=True)
class Health:
    """Check that services make progress; a running process alone does not count."""

    ok: bool
    problem: str | None  # what needs attention, in a sentence
    unfired_for: timedelta = timedelta(0)
    faulty: Sequence[str] = ()  # schedules with an error that a restart does not repair
    services: Mapping[str, ServiceProgress] = field(default_factory=dict)


class Node:
    """The services of one process, on one store."""

    def __init__(
        self,
        store: Store,
        *,
        worker: Worker | None = None,
        scheduler: bool = True,
        reconciler: Reconciler | None = None,
        retention: Retention | None = None,
        alerts: AlertSettings | None = None,
        zone: str | None = None,
        emit: Emit = ignore_event,
    ) -> None:
        self._store = store
        self._worker = worker
        timekeeper = Timekeeper(store, emit=emit)
        self._death_watch = DeathWatch(store, emit=emit, wake=lambda: self._loop.nudge(WORKERS))
        services: list[Service] = [
            timekeeper,
            Dispatcher(store, emit=emit, timekeeper=timekeeper),
            Reactor(store, emit=emit, timekeeper=timekeeper),
            Reaper(store, emit=emit, timekeeper=timekeeper),
            self._death_watch,
        ]
        if scheduler:
            services += [
                Scheduler(store, emit=emit, timekeeper=timekeeper),
                Pruner(store, emit=emit, retention=retention, timekeeper=timekeeper),
                Meter(store, emit=emit, timekeeper=timekeeper),
            ]
        if alerts is not None and alerts.is_active:
            from duly.alerts.alerter import Alerter  # noqa: PLC0415 - for those who want alerts

            services.append(
                Alerter(store, alerts, timekeeper=timekeeper, emit=emit, zone=zone or "UTC")
            )
        if reconciler is not None:
            services.append(reconciler)
        if worker is not None:
            services += worker.services
        self._loop = Loop(
            services, dice=random.random, emit=emit, listening=lambda: store.is_listening
        )
        store.listen(self._loop.nudge)

    async def run(
        self, stop: asyncio.Event | None = None, hurry: asyncio.Event | None = None
    ) -> None:
        """Run until ``stop`` is set. The store is open, and stays open.

        Then nothing is fired any more, and the worker finishes its running jobs; once ``hurry`` is
        set, it stops them.
        """
        stop, hurry, halt = stop or asyncio.Event(), hurry or asyncio.Event(), asyncio.Event()
        services = asyncio.create_task(self._loop.run(halt), name="services")
        try:
            await self._work(stop, hurry, services)
        finally:
            halt.set()
            await services
            self._death_watch.close()

    async def _work(
        self, stop: asyncio.Event, hurry: asyncio.Event, services: "asyncio.Task[None]"
    ) -> None:
        """Work until ``stop`` is set, or until the services end because of an error."""
        stopped = asyncio.create_task(stop.wait())
        try:
            if self._worker is not None:
                await self._worker.start(self._loop.nudge)
            await asyncio.wait((stopped, services), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            hurry.set()  # a cancelled node does not wait for running jobs
            raise
        finally:
            stopped.cancel()
            self._loop.end(BEGIN)
            if self._worker is not None:
                await self._worker.stop(hurry)

    async def health(self) -> Health:
        """Return the health; not ok if the store does not answer."""
        services = self._loop.progress()
        try:
            progress = await self._store.maintenance.progress()
        except StoreUnavailable as error:
            return Health(ok=False, problem=str(error), services=services)
        lagging = [
            name
            for name, service in services.items()
            if service.age > LAGGING and name not in SELDOM
        ]
        problem = progress.problem or (f"no progress: {', '.join(lagging)}" if lagging else None)
        return Health(problem is None, problem, progress.unfired_for, progress.faulty, services)
