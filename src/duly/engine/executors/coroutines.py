"""Runs coroutines, on the loop that everything runs on: a task for each, and hardly more."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from duly.engine.execution import raised, returned
from duly.engine.executors.protocol import LoopTimers, OnEnd
from duly.engine.executors.watchdog import Watchdog
from duly.engine.run import Execution
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
        """End the programs that coroutines have started.

        A coroutine itself belongs to its loop: only the loop's own thread can cancel it.
        """
        self._watchdog.kill()

    def lease_until(self, moment: float) -> None:
        self._watchdog.lease_until(moment)

    async def close(self) -> None:
        self._watchdog.close()


@dataclass(frozen=True, slots=True)
class Fatal:
    """What would have ended the loop, and every other job with it."""

    error: BaseException


async def _survived(call: Callable[[], object]) -> object:
    try:
        return await cast(Awaitable[object], call())
    except (SystemExit, KeyboardInterrupt) as error:
        return Fatal(error)


def _outcome(run: Execution, task: "asyncio.Task[object]") -> Outcome:
    if task.cancelled():
        # By us, and then nobody asks what it came to; or by itself.
        return Raised("CancelledError", "the task was cancelled, and not by duly")
    error = task.exception()
    if error is not None:
        return raised(error, run.definition.retry)
    found = task.result()
    if isinstance(found, Fatal):
        return raised(found.error, run.definition.retry)
    return returned(found, run.definition)
