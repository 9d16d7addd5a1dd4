"""Runs the jobs of a sandbox with a real worker, one at a time, while no time passes.

It is the worker of production, with one slot and without its loop: here it looks for work
repeatedly until there is none. Coroutines run on its event loop. Plain functions run in the thread
that called ``run``, so that a task sees the same connections, patches and thread locals as the test
around it; if the test itself runs on a loop, they run in threads as usual.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn, cast

from duly.clock import Timeout, sleep
from duly.engine.execution import Execution
from duly.engine.executors import Executor, LoopTimers, OnEnd
from duly.engine.executors.in_process import CoroutineExecutor, ThreadExecutor, ThreadWork
from duly.engine.worker import Worker, WorkerOptions
from duly.errors import InvalidValue
from duly.events import EngineEvent, JobStarted, WorkerRegistered
from duly.model.job import Claimed
from duly.model.outcome import Completed, Outcome, Raised
from duly.registry.definition import Definition
from duly.registry.registry import Registry
from duly.runtime.running import to_the_log
from duly.store.store import Store

PAGE = 1_000
PLENTY = 2**31 - 1
ENLISTED_SECONDS = 30.0
# A worker caches some facts for a moment: the queues with jobs, its own pace. Its own clock, and no
# other, advances by this much between two claims.
A_MOMENT = 2.0


class WorkSession:
    """One call of ``run``."""

    name = "sandbox"  # of the worker
    lease: timedelta = timedelta(days=36_500)  # no worker dies here

    def __init__(
        self, store: Store, registry: Registry, *, plain: ThreadExecutor, raising: bool = False
    ) -> None:
        self._store = store
        self._registry = registry
        self._here = self.executor(plain, raising=raising)
        self._started: dict[int, None] = {}
        self._time = 0.0

    @staticmethod
    def executor(plain: ThreadExecutor, *, raising: bool) -> "LocalExecutor":
        return LocalExecutor(plain, raising=raising)

    @property
    def error(self) -> BaseException | None:
        """The error to raise to the caller of ``run``, if there is one."""
        return self._here.error

    @property
    def started(self) -> list[int]:
        """The jobs that were run, in the order of their starts."""
        return list(self._started)

    async def work(self) -> None:
        """Run the jobs that are ready and those that they make ready, also by emitting events."""
        await self._react()
        await self._serve_all()
        while self.error is None and await self._react():
            await self._serve_all()

    async def _react(self) -> bool:
        """Let schedules and flow steps react to events; return whether there was anything."""
        seen = last = await self._store.events.react(limit=PAGE)
        while last.more:
            last = await self._store.events.react(limit=PAGE)
        answered = await self._store.maintenance.answer(limit=PAGE)
        return bool(seen.events or answered)

    async def _serve_all(self) -> None:
        served: set[str] = set()
        while self.error is None and (queues := await self._queues()) - served:
            served |= queues
            await self._serve(served)

    async def _queues(self) -> set[str]:
        """Return the queues that have jobs."""
        found: set[str] = set()
        jobs = await self._store.jobs.page(limit=PAGE)
        while jobs:
            found |= {job.queue for job in jobs}
            jobs = await self._store.jobs.page(after=jobs[-1].id, limit=PAGE)
        return found

    async def _serve(self, queues: set[str]) -> None:
        woken = asyncio.Event()
        worker = self._worker(queues)
        await worker.start(lambda _: woken.set())
        try:
            async with Timeout(ENLISTED_SECONDS):
                while worker.planner.worker is None:
                    await woken.wait()
                    woken.clear()
            await self._until_idle(worker, woken)
        finally:
            await _stopped(worker)

    async def _until_idle(self, worker: Worker, woken: asyncio.Event) -> None:
        claimer, planner, runner = worker.services[0], worker.planner, worker.runner
        looked = False
        while True:
            woken.clear()
            self._time += A_MOMENT
            rest = await claimer.tick()
            if runner.running:
                await woken.wait()
                looked = False
            elif rest:
                if looked:
                    return
                looked = planner.nudged = True  # there may be work without a nudge: look once more
            if self.error is not None:
                # As if claims for all slots were under way: nothing more is claimed.
                planner.claiming = runner.slots

    def _worker(self, queues: set[str]) -> Worker:
        executors: dict[str, Executor] = dict.fromkeys(("async", "thread", "process"), self._here)
        needs = {name for definition in self._registry for name in definition.needs}
        options = WorkerOptions(
            name=self.name,
            queues=tuple(sorted(queues)),
            concurrency=1,
            resources=dict.fromkeys(needs, PLENTY),
            lease=self.lease,
            renews=False,
            verbose=True,
        )
        return Worker(
            self._store,
            self._registry,
            options,
            executors=lambda _: executors,
            dice=lambda: 0.5,  # a retry waits just as long as was said
            on_stop=lambda: None,
            transaction=_no_transaction,
            emit=self._hear,
            time=lambda: self._time,
        )

    def _hear(self, event: EngineEvent) -> None:
        if isinstance(event, JobStarted):
            self._started[event.job] = None
        elif not isinstance(event, WorkerRegistered):
            to_the_log(event)


async def _stopped(worker: Worker) -> None:
    """Stop the worker at once, and give back the jobs that it still runs."""
    hurry = asyncio.Event()
    hurry.set()
    claimer = asyncio.create_task(_tick(worker))
    try:
        await worker.stop(hurry)
    finally:
        claimer.cancel()
        await asyncio.wait((claimer,))


async def _tick(worker: Worker) -> None:
    while True:
        await worker.services[0].tick()
        await sleep(0.01)


class LocalExecutor(LoopTimers):
    """Runs every job in this process, also those of tasks that want a process of their own."""

    def __init__(self, plain: ThreadExecutor, *, raising: bool) -> None:
        self._plain = plain
        self._coroutines = CoroutineExecutor()
        self._raising = raising
        self.error: BaseException | None = None

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:
        run.definition = replace(run.definition, engine=None)  # the function itself runs here
        if self._raising:
            run.definition = replace(run.definition, function=self._caught(run.definition))
        executor = self._coroutines if run.definition.is_async else self._plain
        executor.start(run, arguments, self._noticed(over))

    def kill(self) -> None:
        pass

    async def close(self) -> None:
        await self._plain.close()

    def _noticed(self, over: OnEnd) -> OnEnd:
        def noticed(run: Execution, outcome: Outcome | Completed) -> None:
            if isinstance(outcome, Raised) and outcome.error == KeyboardInterrupt.__name__:
                self._keep(KeyboardInterrupt())  # it was not meant for the task
            over(run, outcome)

        return noticed

    def _caught(self, definition: Definition) -> Callable[..., object]:
        """Wrap the function to keep the exception itself; an outcome has only its text."""
        function = definition.function

        def plain(*args: Any, **kwargs: Any) -> object:
            __tracebackhide__ = True
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                self._keep(error)
                raise

        async def coroutine(*args: Any, **kwargs: Any) -> object:
            __tracebackhide__ = True
            try:
                return await cast(Awaitable[object], function(*args, **kwargs))
            except BaseException as error:
                self._keep(error)
                raise

        return coroutine if definition.is_async else plain

    def _keep(self, error: BaseException) -> None:
        self.error = self.error or error


class CallersThread(ThreadExecutor):
    """Runs plain functions in the thread that calls ``serve``, not in threads of their own."""

    def serve(self) -> None:
        """Run the submitted functions until ``dismiss``."""
        while (work := self._waiting.get()) is not None:
            work()

    def dismiss(self) -> None:
        self._waiting.put(None)

    def _submit(self, work: ThreadWork) -> None:
        self._waiting.put(work)


def _no_transaction(job: Claimed, definition: Definition) -> NoReturn:  # noqa: ARG001 - as asked
    raise InvalidValue(
        f"{definition.name}: transaction() needs a database that the task can open, and a sandbox "
        "keeps its jobs in memory; test what it writes with a store of its own"
    )
