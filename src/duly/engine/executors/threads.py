"""Runs plain functions in threads. A thread can be asked to stop, and cannot be made to.

The threads are daemons: a function that never returns must not keep the program from ending. What
it was doing is then lost with its worker, and done again elsewhere.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from duly.engine.execution import raised, returned
from duly.engine.executors.protocol import LoopTimers, OnEnd
from duly.engine.run import Execution
from duly.model.outcome import Outcome
from duly.registry.context import Context, surrounding

ThreadWork: TypeAlias = Callable[[], None]


class ThreadExecutor(LoopTimers):
    """As many threads as functions run at once; one that is idle takes the next."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[ThreadWork | None] = SimpleQueue()
        self._idle = 0  # threads for which no work is on its way
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
        """There is no such thing as killing a thread."""

    async def close(self) -> None:
        """Without waiting: what ignores that it should stop would be waited for in vain."""
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
                self._hire()
        self._waiting.put(work)

    def _hire(self) -> None:
        """Or raise, and then nothing was begun: there can be no more threads."""
        name = f"duly-job-{self._threads + 1}"
        threading.Thread(target=self._live, name=name, daemon=True).start()
        self._threads += 1

    def _live(self) -> None:
        while (work := self._waiting.get()) is not None:
            work()
            del work  # and with it what the job was given, before the next one comes
            with self._lock:
                self._idle += 1


def _work(run: Execution, call: Callable[[], object], tell: Callable[[Outcome], None]) -> None:
    outcome: Outcome
    run.thread = threading.get_native_id()
    try:
        outcome = returned(call(), run.definition)
    except BaseException as error:  # noqa: BLE001 - also what would end an interpreter
        outcome = raised(error, run.definition.retry)
    tell(outcome)


def _tell(loop: asyncio.AbstractEventLoop, over: OnEnd, run: Execution, outcome: Outcome) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(over, run, outcome)
