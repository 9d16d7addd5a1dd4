"""A node: the services and the worker of one process, on one store.

Any number of nodes may share a store, and none of them is special. A node may have no scheduler or
no worker; every node dispatches due jobs and takes back lost ones.
"""

import asyncio
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final, TypedDict, Unpack

from duly.engine.death_watch import DeathWatch
from duly.engine.executors import Executor
from duly.engine.executors.in_process import CoroutineExecutor, ThreadExecutor
from duly.engine.executors.process.pool import NoteBegin, ProcessExecutor, ProcessPool
from duly.engine.journal_writer import JournalWriter
from duly.engine.lease import LEASE, PATIENCE
from duly.engine.loop import Loop, Service, ServiceProgress
from duly.engine.maintenance import Dispatcher, Meter, Pruner, Reactor, Reaper
from duly.engine.reconciler import Reconciler
from duly.engine.runner import ALONE
from duly.engine.scheduler import Scheduler
from duly.engine.timekeeper import ServiceOptions, Timekeeper
from duly.engine.worker import StopConditions, Worker, WorkerOptions
from duly.errors import StoreUnavailable
from duly.events import Emit, ignore_event
from duly.instants import EPOCH
from duly.model.job import Claimed
from duly.model.outcome import Succeeded
from duly.model.payload import Json
from duly.policy.verdict import Tried, judge
from duly.registry.definition import Definition
from duly.registry.option_values import (
    Duration,
    length_of,
    memory_of,
    names_of,
    needs_of,
    refuse_unknown,
)
from duly.registry.registry import JobTransaction, Registry
from duly.settings import Settings
from duly.settings.tables import AlertSettings, TargetSettings
from duly.store.connect import connect
from duly.store.maintenance import Retention
from duly.store.store import Store
from duly.store.task_transaction import open_completion
from duly.store.values import WORKERS, Settlement

# A service whose last good tick is older makes no progress.
LAGGING = timedelta(seconds=30)
# Services that work only now and then.
SELDOM = ("pruner", "retirement", "leftovers")
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
        clocked: ServiceOptions = {"emit": emit, "timekeeper": timekeeper}
        self._death_watch = DeathWatch(store, emit=emit, wake=lambda: self._loop.nudge(WORKERS))
        services: list[Service] = [
            timekeeper,
            Dispatcher(store, **clocked),
            Reactor(store, **clocked),
            Reaper(store, **clocked),
            self._death_watch,
        ]
        if scheduler:
            pruner = Pruner(store, retention=retention, **clocked)
            planner = worker.planner if worker else None
            services += [Scheduler(store, planner=planner, **clocked), pruner]
            services.append(Meter(store, **clocked))
        if alerts is not None and alerts.is_active:
            services.append(_alerter(store, alerts, timekeeper, zone=zone or "UTC", emit=emit))
        services += [] if reconciler is None else [reconciler]
        services += [] if worker is None else worker.services
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


def _alerter(
    store: Store, alerts: AlertSettings, timekeeper: Timekeeper, *, zone: str, emit: Emit
) -> Service:
    from duly.alerts.alerter import Alerter  # noqa: PLC0415 - for those who want alerts

    return Alerter(store, alerts, timekeeper=timekeeper, emit=emit, zone=zone)


def make_worker(
    store: Store,
    registry: Registry,
    options: WorkerOptions,
    *,
    url: str | None,
    target: str | None,
    on_stop: Callable[[], None],
    emit: Emit = ignore_event,
) -> Worker:
    """Make a worker on an open store.

    ``url`` is for the connection of its heartbeat. ``target`` is what a child process imports to
    find the same tasks; without one there are no child processes.
    """

    def executors(journal: JournalWriter) -> dict[str, Executor]:
        found: dict[str, Executor] = {"async": CoroutineExecutor(), "thread": ThreadExecutor()}
        if target is not None:
            found |= _processes(
                target,
                options,
                url=url,
                journal=journal,
                emit=emit,
                note_begin=store.work.note_begin,
            )
        return found

    def transaction(job: Claimed, definition: Definition) -> JobTransaction:
        return completion(url or ":memory:", job, definition, lease=options.lease)

    registry.completion = registry.completion or completion
    return Worker(
        store,
        registry,
        options,
        executors=executors,
        dice=random.random,
        on_stop=on_stop,
        connect=None if url is None or url == ":memory:" else partial(_heartbeat_store, url),
        transaction=transaction,
        emit=emit,
    )


async def _heartbeat_store(url: str) -> Store:
    # Orders come from duly's own processes, which notify: the file need not be watched.
    store = connect(url, create=False, deadline=PATIENCE, watches=False)
    await store.open()
    return store


def allow_builtin(
    registry: Registry,
    allowed: Sequence[str],
    *,
    networks: Sequence[str] = (),
    secrets: Sequence[str] = (),
    targets: Sequence[TargetSettings] = (),
) -> None:
    """Let the worker run the built-in tasks that its operator allows."""
    if allowed:
        from duly.builtin import definitions  # noqa: PLC0415 - for those who allow it
        from duly.targets import open_targets  # noqa: PLC0415

        found = open_targets(targets, networks=networks, secrets=secrets)
        for one in definitions(allowed, networks=networks, secrets=secrets, targets=found):
            registry.add(one, local=True)


def _processes(
    target: str,
    options: WorkerOptions,
    *,
    url: str | None,
    journal: JournalWriter,
    emit: Emit,
    note_begin: NoteBegin,
) -> dict[str, Executor]:
    pool = ProcessPool(
        target=target,
        size=options.children or os.cpu_count() or 1,
        recycle_jobs=options.recycle_jobs,
        recycle_bytes=options.recycle_bytes,
        emit=emit,
    )
    # A new child for each job: such a job may damage its process.
    isolated = ProcessPool(target=target, size=options.concurrency, recycle_jobs=1, emit=emit)
    return {
        "process": ProcessExecutor(pool, listener=journal, url=url, lease=options.lease),
        ALONE: ProcessExecutor(
            isolated, listener=journal, url=url, lease=options.lease, note_begin=note_begin
        ),
    }


def completion(
    url: str, job: Claimed, definition: Definition, *, lease: timedelta
) -> JobTransaction:
    """Open a transaction in which a task completes its job, on a connection of its own."""

    def settlement(result: Json | None) -> Settlement:
        # A success needs neither a moment nor dice.
        verdict = judge(Tried.of(job, definition.retry), Succeeded(result), EPOCH, dice=0.0)
        return Settlement(
            job=job,
            verdict=verdict,
            outcome="succeeded",
            result=result,
            keep_result=job.terms.kept,
        )

    return open_completion(
        url, settlement=settlement, encode=definition.signature.encode_result, lease=lease
    )


LONGEST_DURATION: Final = timedelta(days=366)  # of an option


class WorkerWords(TypedDict, total=False):
    """The options of a worker as users write them."""

    name: str
    queues: Sequence[str]
    concurrency: int
    children: int | None
    resources: Mapping[str, int]
    lease: Duration
    recycle_jobs: int | None
    recycle_memory: str | None
    burst: bool
    max_jobs: int | None
    max_idle: Duration | None


def worker_words(settings: Settings) -> WorkerWords:
    """Return the options of workers from the settings."""
    return {
        "queues": settings.queues,
        "concurrency": settings.concurrency,
        "lease": settings.lease,
    }


def worker_options(
    *, dedicated: bool, verbose: bool = False, **words: Unpack[WorkerWords]
) -> WorkerOptions:
    refuse_unknown(words, WorkerWords.__annotations__, who="a worker")
    idle, memory = words.get("max_idle"), words.get("recycle_memory")
    return WorkerOptions(
        name=words.get("name", ""),
        queues=names_of("queues", words.get("queues", ("default",))),
        concurrency=words.get("concurrency", 10),
        children=words.get("children"),
        resources=needs_of(words.get("resources", {})),
        lease=_length("lease", words.get("lease", LEASE)),
        recycle_jobs=words.get("recycle_jobs"),
        recycle_bytes=None if memory is None else memory_of(memory),
        conditions=StopConditions(
            burst=words.get("burst", False),
            max_jobs=words.get("max_jobs"),
            max_idle=None if idle is None else _length("max_idle", idle),
        ),
        dedicated=dedicated,
        verbose=verbose,
    )


def _length(option: str, value: Duration) -> timedelta:
    return length_of(option, value, longest=LONGEST_DURATION)
