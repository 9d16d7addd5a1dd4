"""Runs jobs in children that can be killed: see ``process`` for how they live and die."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from duly.engine.execution import raised
from duly.engine.executors.process.orders import CapturedLine, RunRequest, facts_of
from duly.engine.executors.process.pool import ProcessPool
from duly.engine.executors.protocol import LoopTimers, OnEnd
from duly.engine.lease import LEASE
from duly.engine.run import Execution, StopReason
from duly.model.claimed import Claimed
from duly.model.outcome import Completed, Outcome, Returned


class LogListener(Protocol):
    """Who writes down what jobs print."""

    def lines(self, job: Claimed, lines: Sequence[CapturedLine]) -> None: ...


class ProcessExecutor(LoopTimers):
    def __init__(
        self,
        pool: ProcessPool,
        *,
        listener: LogListener,
        url: str | None = None,
        lease: timedelta = LEASE,
    ) -> None:
        self._pool = pool
        self.seats = pool.size
        self._listener = listener
        self._url = url
        self._lease = lease
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop holds tasks only weakly

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:  # noqa: ARG002
        """The child reads the arguments by itself; here they were only found to fit."""
        task = asyncio.get_running_loop().create_task(self._run(run, over))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        run.stopper = lambda reason: self._stop(run, task, reason)

    def expire_after(
        self, run: Execution, timeout: timedelta, expired: Callable[[Execution], None]
    ) -> None:
        """The pool does it, with more means than we have."""

    def kill(self) -> None:
        self._pool.kill_everything()

    def lease_until(self, moment: float) -> None:
        self._pool.lease_until(moment)

    async def close(self) -> None:
        await self._pool.close()

    async def _run(self, run: Execution, over: OnEnd) -> None:
        definition, job = run.definition, run.job
        order = RunRequest(
            task=job.task,
            args=job.args,
            facts=facts_of(job),
            timeout=run.timeout,
            grace=definition.grace,
            memory=definition.memory,
            url=self._url,
            lease=self._lease,
        )
        outcome: Outcome | Completed = Returned("interrupted: its worker stops")
        try:
            outcome = await self._pool.run(
                order,
                on_log=lambda lines: self._listener.lines(job, lines),
                on_progress=run.progress,
            )
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - as without descriptors: it is tried and told
            outcome = raised(error, definition.retry)
        finally:
            over(run, outcome)

    def _stop(self, run: Execution, task: "asyncio.Task[None]", reason: str) -> None:
        if run.why in (StopReason.FENCED, StopReason.INTERRUPTED):
            task.cancel()  # which kills the child
        else:
            self._pool.cancel(run.job.id, reason)
