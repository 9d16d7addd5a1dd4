"""Executors inside the worker's process: coroutines on the loop, plain functions in threads."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias, cast

from duly.engine.execution import Execution, raised, returned
from duly.engine.executors import LoopTimers, OnEnd
from duly.engine.executors.watchdog import Watchdog
from duly.model.outcome import Outcome, Raised
from duly.registry.context import Context, surrounding


class CoroutineExecutor(LoopTimers):
    def __init__(self) -> None:
        self._watchdog = Watchdog()

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:
        definition = run.definition
        context = Context(run.job, run.definition.retry, run)
        given = (context,) if definition.takes_context else ()
        work = _survived(partial(definition.function, *given, **arguments))
        task = asyncio.get_running_loop().create_task(work, context=surrounding(context))
        run.stopper = task.cancel
        run.watchdog = self._watchdog
        task.add_done_callback(lambda task: over(run, _outcome(run, task)))

    def kill(self) -> None:
        """Kill the programs that coroutines have started.

        Only the thread of the loop can cancel a coroutine itself.
        """
        self._watchdog.kill()

    def lease_until(self, moment: float) -> None:
        self._watchdog.lease_until(moment)

    async def close(self) -> None:
        self._watchdog.close()


@dataclass(frozen=True, slots=True)
class Fatal:
    """An exception that would have ended the loop and every other job with it."""

    error: BaseException


async def _survived(call: Callable[[], object]) -> object:
    try:
        return await cast(Awaitable[object], call())
    except (SystemExit, KeyboardInterrupt) as error:
        return Fatal(error)


def _outcome(run: Execution, task: "asyncio.Task[object]") -> Outcome:
    if task.cancelled():
        # By duly, and then this outcome is not used; or by itself.
        return Raised("CancelledError", "the task was cancelled, and not by duly")
    error = task.exception()
    if error is not None:
        return raised(error, run.definition.retry)
    found = task.result()
    if isinstance(found, Fatal):
        return raised(found.error, run.definition.retry)
    return returned(found, run.definition)


ThreadWork: TypeAlias = Callable[[], None]


class ThreadExecutor(LoopTimers):
    """Runs plain functions in threads, as many as run at once; idle threads are reused.

    A thread can be asked to stop and cannot be made to. The threads are daemons: a function that
    never returns must not keep the program from ending. Its job is then lost with the worker and
    repeated elsewhere.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[ThreadWork | None] = SimpleQueue()
        self._idle = 0  # threads without assigned work
        self._threads = 0
        self._closed = False
        self._lock = threading.Lock()

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:
        run.is_thread = True
        context = Context(run.job, run.definition.retry, run)
        given = (context,) if run.definition.takes_context else ()
        call = partial(run.definition.function, *given, **arguments)
        tell = partial(_tell, asyncio.get_running_loop(), over, run)
        self._submit(partial(_work, run, partial(surrounding(context).run, call), tell))

    def kill(self) -> None:
        """A thread cannot be killed."""

    async def close(self) -> None:
        """Let the threads end, without waiting: a function may never return."""
        with self._lock:
            self._closed = True
            threads = self._threads
        for _ in range(threads):
            self._waiting.put(None)

    def _submit(self, work: ThreadWork) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._start_thread()
        self._waiting.put(work)

    def _start_thread(self) -> None:
        """Start a thread; raise if there can be no more."""
        name = f"duly-job-{self._threads + 1}"
        threading.Thread(target=self._work_loop, name=name, daemon=True).start()
        self._threads += 1

    def _work_loop(self) -> None:
        while (work := self._waiting.get()) is not None:
            work()
            del work  # free the arguments of the job before the next one comes
            with self._lock:
                self._idle += 1


def _work(run: Execution, call: Callable[[], object], tell: Callable[[Outcome], None]) -> None:
    outcome: Outcome
    run.thread = threading.get_native_id()
    try:
        outcome = returned(call(), run.definition)
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt too
        outcome = raised(error, run.definition.retry)
    tell(outcome)


def _tell(loop: asyncio.AbstractEventLoop, over: OnEnd, run: Execution, outcome: Outcome) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(over, run, outcome)
