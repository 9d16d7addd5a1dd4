"""Executors inside the worker's process: coroutines on the loop, plain functions in threads."""

import asyncio
import threading
from asyncio import Task
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias, cast

from duly.engine.execution import Execution, raised, returned
from duly.engine.executors import LoopTimers, OnEnd
from duly.engine.executors.on_engine import run_on
from duly.engine.executors.watchdog import Watchdog
from duly.model.outcome import Completed, HandedOff, Outcome, Postponed, Raised
from duly.registry.context import Context, entered, surrounding

# How long a task runs jobs in a row before the event loop may do something else.
ROW_SECONDS = 0.001


class CoroutineExecutor(LoopTimers):
    """Runs coroutines in tasks of the event loop, and jobs that never wait in a row in one task.

    With a task for each job, a worker spent 27 µs on a job that does nothing; in rows it spends 13.
    A row ends with the first job that waits for anything, so that job has the task to itself from
    then on, and the jobs behind it get their own. A row also ends with a job that leaves something
    behind in the task: changed context variables or a cancellation.
    """

    def __init__(self) -> None:
        self._watchdog = Watchdog()
        self._waiting: deque[tuple[Execution, Mapping[str, object], OnEnd]] = deque()
        self._expected = 0  # rows that will begin, and reliefs: each looks at the waiting jobs

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:
        run.watchdog = self._watchdog
        self._waiting.append((run, arguments, over))
        if not self._expected:
            self._begin_rows(1)

    def kill(self) -> None:
        """Kill the programs that coroutines have started.

        Only the thread of the loop can cancel a coroutine itself.
        """
        self._watchdog.kill()

    def lease_until(self, moment: float) -> None:
        self._watchdog.lease_until(moment)

    async def close(self) -> None:
        self._watchdog.close()

    def _begin_rows(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        self._expected += count
        for _ in range(count):
            loop.create_task(self._run_row())  # noqa: RUF006 - run.stopper refers to it

    async def _run_row(self) -> None:
        self._expected -= 1
        if not self._waiting:
            return
        loop, task = asyncio.get_running_loop(), cast("Task[None]", asyncio.current_task())
        row, clean = _Row(), copy_context()
        self._expected += 1
        loop.call_soon(self._relieve, row)
        until = loop.time() + ROW_SECONDS
        while self._waiting and not row.is_relieved and loop.time() < until:
            run, arguments, over = self._waiting.popleft()
            run.stopper = task.cancel
            outcome = await _outcome(run, arguments)
            # Not in the context of the job: what starts or is told now has nothing to do with it.
            clean.run(over, run, outcome)
            if task.cancelling() or copy_context() != clean:
                break
        row.is_over = True

    def _relieve(self, row: "_Row") -> None:
        """Go on with the waiting jobs after a row, or beside it if its job waits.

        In that case the other jobs probably wait, too, and each gets its own task.
        """
        self._expected -= 1
        row.is_relieved = True
        if self._waiting and not self._expected:
            self._begin_rows(1 if row.is_over else len(self._waiting))


class _Row:
    """Jobs that run in one task."""

    __slots__ = ("is_over", "is_relieved")

    def __init__(self) -> None:
        self.is_over = False
        self.is_relieved = False  # the event loop has come to other work since the row began


async def _outcome(run: Execution, arguments: Mapping[str, object]) -> Outcome | Completed:
    definition = run.definition
    if run.why is not None:  # stopped before it began
        return _CANCELLED
    context = Context(run.job, definition.retry, run)
    with entered(context):
        try:
            if definition.engine is not None:
                return await run_on(definition.engine, run)
            if definition.takes_context:
                found = await cast(Awaitable[object], definition.function(context, **arguments))
            else:
                found = await cast(Awaitable[object], definition.function(**arguments))
        except asyncio.CancelledError:
            return _CANCELLED
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop and every job
            return raised(error, definition.retry)
    # A built-in task may return the outcome itself.
    return found if isinstance(found, _OUTCOMES) else returned(found, definition)


_OUTCOMES = (HandedOff, Postponed)  # not a union, which would be made anew for every job
# By duly, and then this outcome is not used; or by itself.
_CANCELLED = Raised("CancelledError", "the task was cancelled, and not by duly")


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
