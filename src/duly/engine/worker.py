"""A worker: claims jobs, runs them and writes their outcomes.

It is made of a runner, two claimers, the journal writer and the heartbeat. It stops in two ways.
Warm stop: it claims nothing more, gives back jobs that have not started and waits for those that
run. Cold stop: it stops running jobs as well.
"""

import asyncio
import contextlib
import os
import platform
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from duly.clock import Timeout, boottime, sleep
from duly.engine.claim_planner import ClaimPlanner
from duly.engine.claimer import Claimer
from duly.engine.death_watch import this_process
from duly.engine.execution import StopReason
from duly.engine.executors import Executor
from duly.engine.heartbeat import Heartbeat, LeaseTerms
from duly.engine.journal_writer import JournalWriter, LogCapture
from duly.engine.lease import LEASE, LONGEST, PATIENCE, SHORTEST
from duly.engine.leftovers import Leftovers
from duly.engine.loop import Service
from duly.engine.runner import Runner
from duly.errors import InvalidValue, StoreUnavailable
from duly.events import Emit, EngineEvent, ignore_event
from duly.model.job import Claimed
from duly.model.worker import Host, Profile
from duly.registry.definition import Definition
from duly.registry.registry import JobTransaction, Registry
from duly.store.store import Store
from duly.store.work import Beat
from duly.version import __version__

# How long jobs have to end in a cold stop.
COLD_SECONDS = 5.0
CHECK_EVERY = timedelta(milliseconds=50)
NEVER = timedelta(hours=1)
MOST_SLOTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StopConditions:
    """The conditions under which a worker stops on its own."""

    burst: bool = False  # when no job is ready
    max_jobs: int | None = None
    max_idle: timedelta | None = None

    @property
    def are_empty(self) -> bool:
        return not self.burst and self.max_jobs is None and self.max_idle is None


NO_STOP_CONDITIONS = StopConditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of a worker."""

    name: str = ""  # a label; by default the host name and the PID
    queues: tuple[str, ...] = ("default",)
    concurrency: int = 10
    children: int | None = None  # for executor="process"; None: as many as cores
    resources: Mapping[str, int] = field(default_factory=dict)
    recycle_jobs: int | None = None
    recycle_bytes: int | None = None
    lease: timedelta = LEASE
    renews: bool = True  # False: there is no heartbeat while a job runs, and the lease is long
    conditions: StopConditions = NO_STOP_CONDITIONS
    dedicated: bool = False  # the process is only a worker: it may end itself
    restart: Callable[[int], object] | None = None  # ends the process, and another one replaces it
    verbose: bool = False  # emit events for every job
    app: str = ""
    host: Host | None = None  # None: this process

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MOST_SLOTS:
            raise InvalidValue(
                f"concurrency={self.concurrency}: expected a number from 1 to {MOST_SLOTS}"
            )
        if not self.queues:
            raise InvalidValue("a worker needs at least one queue")
        if self.renews and not SHORTEST <= self.lease <= LONGEST:
            raise InvalidValue(f"lease={self.lease}: expected 2 seconds to 10 minutes")

    def profile(self, signatures: Mapping[str, str], *, isolates: bool) -> Profile:
        """Return what other workers and people see of it."""
        return Profile(
            name=self.name or f"{platform.node()}-{os.getpid()}",
            queues=self.queues,
            signatures=signatures,
            slots=self.concurrency,
            resources=self.resources,
            isolates=isolates,
            host=self.host or this_process(),
            version=__version__,
            app=self.app,
        )


class Worker:
    def __init__(  # noqa: PLR0913 - its parts, by name
        self,
        store: Store,
        registry: Registry,
        options: WorkerOptions,
        *,
        executors: Callable[[JournalWriter], Mapping[str, Executor]],
        dice: Callable[[], float],
        on_stop: Callable[[], None],
        connect: Callable[[], Awaitable[Store]] | None = None,
        transaction: Callable[[Claimed, Definition], JobTransaction] | None = None,
        emit: Emit = ignore_event,
        time: Callable[[], float] = boottime,
    ) -> None:
        emit = emit if emit is ignore_event else _harmless(emit)
        self._journal = JournalWriter(store)
        self._executors = executors(self._journal)
        self._options = options
        self._on_stop = on_stop
        self._wake: Callable[[str], None] = lambda _: None
        self.runner: Runner = Runner(
            registry,
            self._executors,
            slots=options.concurrency,
            journal=self._journal,
            time=time,
            dice=dice,
            wake=lambda: self._wake(self.planner.own_topic),
            wake_second=lambda: self._wake(self.planner.second_topic),
            resources=options.resources,
            most=options.conditions.max_jobs,
            transaction=transaction,
            emit=emit,
            verbose=options.verbose,
        )
        signatures = {
            name: mark
            for name, mark in registry.signatures().items()
            if registry.get(name).executor in self._executors
        }
        self.planner: ClaimPlanner = ClaimPlanner(
            store, self.runner, queues=options.queues, tasks=tuple(signatures)
        )
        self.planner.journal = self._journal
        self.profile: Profile = options.profile(signatures, isolates=self.runner.isolates)
        self._heartbeat = Heartbeat(
            self,
            self.profile,
            connect=connect,
            store=store,
            terms=LeaseTerms(
                lease=options.lease,
                dedicated=options.dedicated,
                exit=options.restart or os._exit,
                restarts=options.restart is not None,
            ),
            emit=emit,
            steady=time,
        )
        self._log_capture = LogCapture()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # native id of the loop's thread
        self._stopping = False
        self._asked = 0  # stops asked for through the store
        store.listen(self.planner.hear)
        leftovers = Leftovers(store, registry, emit=emit)
        self.services: Sequence[Service] = (
            Claimer(self.planner, emit=emit),
            Claimer(self.planner, first=False, emit=emit),
            self._journal,
            Retirement(self.planner, options.conditions, stop=on_stop),
            *((leftovers,) if leftovers.are_possible else ()),
        )

    async def start(self, nudge: Callable[[str], None]) -> None:
        """Start; ``nudge`` wakes the services of a topic."""
        self._wake = nudge
        self._journal.wakes_by(nudge)
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_native_id()
        self.planner.pulse = self.runner.time()
        self._log_capture.__enter__()
        await self._heartbeat.start()

    async def stop(self, hurry: asyncio.Event) -> None:
        """Stop warm, and cold once ``hurry`` is set. The services go on ticking meanwhile."""
        self._stopping = True
        self.runner.accepts = False
        self.runner.give_back_waiting("given back unstarted: its worker stops")
        if self.runner.running:
            await self._announce_stop()
        await self._until(lambda: not self.runner.running or hurry.is_set())
        self.runner.stop_all(StopReason.INTERRUPTED)
        with contextlib.suppress(TimeoutError):
            async with Timeout(COLD_SECONDS):
                await self._until(lambda: self.planner.is_idle)
        for executor in self._executors.values():
            await executor.close()
        self._log_capture.__exit__(None, None, None)
        # Jobs that could not be stopped are not given to others while they may still run.
        await self._heartbeat.stop(let_go=not self.runner.running)

    async def _announce_stop(self) -> None:
        """Show in the worker's row that it takes no more jobs."""
        if self.planner.worker is not None:
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with Timeout(PATIENCE.total_seconds()):
                    await self.planner.store.work.tell(self.planner.worker, "stop")

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._wake(self.planner.own_topic)
            await sleep(0.02)

    # Called by the heartbeat, on the event loop:

    def enlisted(self, worker: int) -> None:
        self.planner.enlisted(worker)
        self._wake(self.planner.own_topic)

    def hear(self, beat: Beat) -> None:
        if beat.signals:
            self.runner.cancel(beat.signals)
        if beat.slots is not None and beat.slots != self.runner.slots:
            self.runner.resize(beat.slots)
            self._wake(self.planner.own_topic)
        match beat.order:
            case "run":
                self._accept(accepts=not self._stopping)
            case "drain":
                self._accept(accepts=False)
            case "stop":
                self._ask_to_stop(1)
            case "kill":
                self._ask_to_stop(2)

    def _accept(self, *, accepts: bool) -> None:
        if accepts == self.runner.accepts:
            return
        self.runner.accepts = accepts
        self.runner.give_back_waiting("given back unstarted: its worker is drained")
        self._wake(self.planner.own_topic)

    def _ask_to_stop(self, times: int) -> None:
        """Ask once for a warm stop and twice for a cold one, however often the order comes."""
        asked = max(self._asked, int(self._stopping))
        for _ in range(times - asked):
            self._on_stop()
        self._asked = max(asked, times)

    def fenced(self) -> None:
        self.planner.worker = None
        self.runner.stop_all(StopReason.FENCED)

    # Called by the heartbeat, from any thread:

    def load(self) -> int:
        return len(self.runner.running)

    def running(self) -> list[int]:
        return list(self.runner.running)

    def pulse(self) -> float:
        return self.planner.pulse

    def jobs_of(self, thread: int) -> list[tuple[int, str]]:
        """Return jobs that run in a thread, or have ended there within the last second.

        A task that held the GIL has often ended before this can be called.
        """
        running = list(self.runner.running.values())
        since = self.runner.time() - 1.0
        ended = [run for at, run in list(self.runner.ended) if at > since]
        if thread == self._thread:
            on_loop = [run for run in running if run.place == "async"]
            task = None if self._loop is None else asyncio.current_task(self._loop)
            turning = [run for run in on_loop if getattr(run.stopper, "__self__", self) is task]
            there = [run for run in ended if run.place == "async"]
            # Those that were stopped have waited meanwhile: a lost lease stops all jobs.
            found = turning or [run for run in there if run.why is None] or there or on_loop
        else:
            found = [run for run in (*running, *ended) if run.thread == thread][:1]
        return [(run.job.id, run.job.task) for run in found]

    def lease_until(self, moment: float) -> None:
        for executor in self._executors.values():
            executor.lease_until(moment)

    def kill(self) -> None:
        for executor in self._executors.values():
            executor.kill()


def _harmless(emit: Emit) -> Emit:
    """Ignore the errors of a listener: they must not stop the worker."""

    def say(event: EngineEvent) -> None:
        with contextlib.suppress(Exception):
            emit(event)

    return say


class Retirement:
    """Stops the worker when one of its stop conditions holds."""

    name = "retirement"
    topics: frozenset[str] = frozenset()

    def __init__(
        self, planner: ClaimPlanner, conditions: StopConditions, *, stop: Callable[[], None]
    ) -> None:
        self._planner = planner
        self._conditions = conditions
        self._stop = stop
        self._began = planner.runner.time()
        self._busy_at = planner.runner.time()
        self._ended = 0

    async def tick(self) -> timedelta:
        if self._conditions.are_empty:
            return NEVER
        if self._should_stop():
            self._stop()
            return NEVER
        return CHECK_EVERY

    def _should_stop(self) -> bool:
        runner, conditions = self._planner.runner, self._conditions
        now = runner.time()
        if conditions.max_jobs is not None and runner.outbox.attempts >= conditions.max_jobs:
            return True
        if (
            not runner.is_idle
            or runner.outbox.attempts != self._ended
            or self._planner.worker is None
        ):
            self._ended = runner.outbox.attempts
            self._busy_at = now
            return False
        if (
            conditions.max_idle is not None
            and now - self._busy_at >= conditions.max_idle.total_seconds()
        ):
            return True
        return conditions.burst and self._found_nothing()

    def _found_nothing(self) -> bool:
        """Return whether a peek since the last job found nothing, and no claim is under way."""
        planner = self._planner
        looked = planner.peeked_at > max(self._began, self._busy_at)
        return looked and not planner.busy and not planner.nudged and planner.rotation.knows_nothing
