"""A place to put a worker to work: a real store, the tasks of a test, and ears for what is said."""

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast

from duly.app import Node, connect, migrate_tables, open_store
from duly.clock import boottime, sleep
from duly.engine.executors import Executor
from duly.engine.executors.in_process import CoroutineExecutor, ThreadExecutor
from duly.engine.journal_writer import JournalWriter
from duly.engine.runner import Runner
from duly.engine.worker import Worker, WorkerOptions
from duly.events import Emit, EngineEvent, JobEnded, ignore_event
from duly.model.job import Claimed, StoredJob
from duly.model.states import ENDED, State
from duly.registry.context import current
from duly.registry.definition import Definition, define
from duly.registry.registry import Registry
from duly.store.store import Store
from duly.store.values import ClaimRequest
from duly.testing.clock import VirtualClock
from tests.factories import call, profile

E = TypeVar("E")

PATIENCE = 10.0
LONG_LEASE = timedelta(minutes=1)
Fault = Callable[..., Awaitable[Any]]
Task = Definition | Callable[..., object]


async def until(true: Callable[[], bool], *, within: float = PATIENCE) -> None:
    deadline = boottime() + within
    while not true():
        assert boottime() < deadline, f"it did not come true in {within} seconds"
        await sleep(0.005)


def until_cancelled() -> str:
    """What a polite plain function does: it looks now and then whether it should stop."""
    while not current().cancelled:
        PAUSE.wait(0.005)
    return current().reason


PAUSE = threading.Event()  # which nobody ever sets


@asynccontextmanager
async def memory_store(clock: VirtualClock | None = None) -> AsyncIterator[Store]:
    store = connect(":memory:", clock=clock)
    await store.open()
    try:
        await migrate_tables(store)
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """A store that has its tables."""
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


class Line:
    """A store at the other end of a line: every call is counted, and some do not come through.

    ``faults["work.renew"]`` is called instead, with the real thing before the arguments.
    """

    def __init__(self, store: Store) -> None:
        self.calls: Counter[str] = Counter()
        self.faults: dict[str, Fault] = {}
        self._store = store

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        found = getattr(self._store, name)
        return found if callable(found) else _Noun(self, name, found)

    @property
    def store(self) -> Store:
        return cast(Store, self)


class _Noun:
    def __init__(self, line: Line, name: str, noun: object) -> None:
        self._line = line
        self._name = name
        self._noun = noun

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        real = getattr(self._noun, verb)
        if not inspect.iscoroutinefunction(real):
            return real  # type: ignore[no-any-return]  # what is not awaited cannot be kept waiting
        name = f"{self._name}.{verb}"

        async def called(*args: object, **kwargs: object) -> object:
            self._line.calls[name] += 1
            fault = self._line.faults.get(name)
            return await (fault(real, *args, **kwargs) if fault else real(*args, **kwargs))

        return called


def raising(error: type[Exception]) -> Fault:
    async def fault(*_: object, **__: object) -> None:
        raise error("the test says so")

    return fault


def known(*tasks: Task) -> Registry:
    registry = Registry()
    for task in tasks:
        registry.add(task if isinstance(task, Definition) else define(task))
    return registry


@dataclass
class WorkingWorker:
    """A worker at work, and what it said."""

    store: Store
    registry: Registry
    worker: Worker
    events: list[EngineEvent] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    asked_to_stop: int = 0
    run: "asyncio.Task[None] | None" = None

    @property
    def number(self) -> int:
        assert self.worker.planner.worker is not None
        return self.worker.planner.worker

    async def enqueue(self, task: str, *, times: int = 1, **arguments: Any) -> list[int]:
        using = {key: arguments.pop(key) for key in _USING if key in arguments}
        definition = self.registry.get(task)
        asked = self.registry.call(definition, (), arguments, **using)
        return await self.store.jobs.enqueue([asked] * times)

    async def ended(self, number: int, *, within: float = PATIENCE) -> StoredJob:
        """The job, once it has ended."""
        return await self.became(number, *ENDED, within=within)

    async def became(self, number: int, *states: State, within: float = PATIENCE) -> StoredJob:
        deadline = boottime() + within
        while (job := await self.store.jobs.get(number)).state not in states:
            assert boottime() < deadline, f"it is {job.state}, and not {states}: {self.events}"
            await sleep(0.005)
        return job

    async def over(self, number: int, times: int = 1) -> StoredJob:
        """The job, once an attempt of it is over and written."""
        await until(lambda: len(self.ends(number)) >= times)
        await until(lambda: not self.worker.runner.outbox and self.worker.planner.busy == 0)
        return await self.store.jobs.get(number)

    def ends(self, number: int) -> list[JobEnded]:
        return [event for event in self.heard(JobEnded) if event.job == number]

    def heard(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def hear(self, kind: type[E], *, within: float = PATIENCE) -> E:
        """The first event of a kind, once there is one."""
        await until(lambda: bool(self.heard(kind)), within=within)
        return self.heard(kind)[0]

    async def leave(self, *, cold: bool = False) -> None:
        self.stop.set()
        if cold:
            self.hurry.set()
        if self.run is not None:
            await self.run

    def ask_to_stop(self) -> None:
        self.asked_to_stop += 1
        (self.stop if self.asked_to_stop == 1 else self.hurry).set()


_USING = ("queue", "priority", "start_within", "late", "key", "timeout", "retry", "tenant")


@asynccontextmanager
async def at_work(
    store: Store,
    *tasks: Task,
    heart: Callable[[], Awaitable[Store]] | None = None,
    emit: Emit = ignore_event,
    registry: Registry | None = None,
    executors: Mapping[str, Executor] | None = None,
    scheduler: bool = False,
    **options: Any,
) -> AsyncIterator[WorkingWorker]:
    """A worker that has a lease, with everything that a node has but a scheduler, unless asked."""
    registry = registry or known(*tasks)

    def hear(event: EngineEvent) -> None:
        working.events.append(event)
        emit(event)

    worker = Worker(
        store,
        registry,
        WorkerOptions(**{"name": "tester", "lease": LONG_LEASE, "verbose": True, **options}),
        executors=lambda _: executors or {"async": CoroutineExecutor(), "thread": ThreadExecutor()},
        dice=lambda: 0.5,
        on_stop=lambda: working.ask_to_stop(),  # noqa: PLW0108 - it is made below
        connect=heart,
        emit=hear,
    )
    working = WorkingWorker(store, registry, worker)
    node = Node(store, worker=worker, scheduler=scheduler, emit=hear)
    working.run = asyncio.create_task(node.run(working.stop, working.hurry))
    try:
        await until(lambda: worker.planner.worker is not None)
        yield working
    finally:
        await working.leave(cold=True)


class Bench:
    """A runner by itself, and a store from which the test claims for it."""

    def __init__(self, store: Store, *tasks: Task, slots: int = 10, **changes: Any) -> None:
        self.store = store
        self.registry = changes.pop("registry", None) or known(*tasks)
        self.events: list[EngineEvent] = []
        self.woken = 0
        self.now = 0.0
        self.journal = JournalWriter(store)
        self.threads = ThreadExecutor()
        self.runner = Runner(
            self.registry,
            changes.pop("executors", {"async": CoroutineExecutor(), "thread": self.threads}),
            slots=slots,
            journal=self.journal,
            time=lambda: self.now,
            dice=lambda: 0.5,
            wake=self._wake,
            emit=self.events.append,
            **changes,
        )
        self._worker: int | None = None

    def _wake(self) -> None:
        self.woken += 1

    async def claimed(self, *tasks: str, **changes: Any) -> list[Claimed]:
        """A job for each of these tasks, claimed."""
        if self._worker is None:
            names = tuple({*self.registry.names(), *tasks})
            asked = profile("bench", tasks=names)
            self._worker = (await self.store.work.register(asked, lease=LONG_LEASE)).id
        await self.store.jobs.enqueue([call(task, **changes) for task in tasks])
        request = ClaimRequest(worker=self._worker, queue="default", tasks=tasks, limit=len(tasks))
        return list((await self.store.work.claim(request)).jobs)

    async def run(self, *tasks: str, **changes: Any) -> None:
        """Claim a job of each task, and run them all to their end."""
        jobs = await self.claimed(*tasks, **changes)
        self.runner.take(jobs)
        await until(lambda: not self.runner.running)

    def heard(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]
