"""Seats for jobs, and children to run them.

A child is started when a job needs one and none is idle, and kept for the next. At most ``size``
jobs run at once; whoever comes then waits for a seat.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from duly.engine.executors.process.minder import ChildProcess
from duly.engine.executors.process.orders import OnLog, OnProgress, RunRequest
from duly.engine.executors.process.run import ProcessRun
from duly.engine.executors.process.trouble import StartBackoff
from duly.events import ChildNotStarted
from duly.model.outcome import Completed, Outcome, Returned, TimedOut

Emit: TypeAlias = Callable[[ChildNotStarted], None]

START_LIMIT = 300.0  # seconds to import an application, from a cold disk if need be
_GOODBYE = 0.5
_LAST_LOOK = 0.4
_NOTHING: Mapping[str, str] = MappingProxyType({})


class ProcessPool:
    """Everything belongs to the event loop's thread, except where it says otherwise.

    That thread must outlive the pool: the kernel kills children when the thread that started them
    ends.
    """

    def __init__(
        self,
        *,
        target: str,
        size: int,
        emit: Emit,
        recycle_jobs: int | None = None,
        recycle_bytes: int | None = None,
        environment: Mapping[str, str] = _NOTHING,
    ) -> None:
        self._target = target
        self._emit = emit
        self._recycle_jobs = recycle_jobs
        self._recycle_bytes = recycle_bytes
        self._environment = environment
        self.size = size
        self._free_seats = size
        self._line: deque[asyncio.Future[None]] = deque()  # of those who wait for a seat
        self._runs: dict[int, ProcessRun] = {}
        self._idle: list[ChildProcess] = []
        self._trouble = StartBackoff()
        self._lock = threading.Lock()  # for the three below, which other threads look at
        self._minders: set[ChildProcess] = set()
        self._massacres = 0
        self._lease_until: float | None = None
        self._is_closed = False

    async def run(
        self, order: RunRequest, *, on_log: OnLog, on_progress: OnProgress
    ) -> Outcome | Completed:
        """Run it to its end, whatever that is. To be cancelled is to kill it."""
        job_id = order.job_id
        run = ProcessRun(order, on_log=on_log, on_progress=on_progress)
        self._runs[job_id] = run
        try:
            return await self._seated(run, massacres=self._massacres)
        finally:
            run.close()
            if self._runs.get(job_id) is run:
                del self._runs[job_id]

    def cancel(self, job_id: int, reason: str) -> None:
        """Ask it to end, and make it if it has not after its grace. No such job is no error."""
        run = self._runs.get(job_id)
        if run is not None:
            run.cancel(reason)

    def kill_everything(self) -> None:
        """From any thread, at once. What runs is lost; what waits is given back."""
        with self._lock:
            self._massacres += 1
            minders = list(self._minders)
        for minder in minders:
            minder.kill()

    def lease_until(self, moment: float) -> None:
        """From any thread: what runs, or begins, ends itself then if this is not called again."""
        with self._lock:
            self._lease_until = moment
            minders = list(self._minders)
        for minder in minders:
            minder.lease_until(moment)

    def pids(self) -> list[int]:
        """From any thread."""
        with self._lock:
            bodies = [minder.body for minder in self._minders]
        return sorted(body.pid for body in bodies if not body.is_buried)

    async def close(self) -> None:
        """End every child: idle ones by themselves if they do so soon. Takes a second at most."""
        self._is_closed = True
        for run in self._runs.values():
            run.call_off(Returned())
        for minder in self._minders:
            if minder in self._idle:
                minder.retire()
            else:
                minder.kill()
        self._idle.clear()
        await self._all_gone(_GOODBYE)
        for minder in self._minders:
            minder.kill()
        await self._all_gone(_LAST_LOOK)
        for minder in self._minders:
            minder.forget()

    async def _seated(self, run: ProcessRun, *, massacres: int) -> Outcome | Completed:
        if self._is_closed:
            return Returned()
        if not await self._take_seat(run):
            return run.called_off.result()
        try:
            minder = await self._ready_child(run)
            if minder is None:
                return run.called_off.result()
            if massacres != self._massacres:
                self._keep(minder)
                return Returned()
            outcome = await minder.work_on(run)
            self._keep(minder, interrupted=isinstance(outcome, TimedOut))
            return outcome
        finally:
            self._leave_seat()

    async def _take_seat(self, run: ProcessRun) -> bool:
        """Wait for one, unless the run is called off before."""
        if self._free_seats:
            self._free_seats -= 1
            return True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await asyncio.wait((turn, run.called_off), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if turn.done():
                self._leave_seat()
            raise
        finally:
            turn.cancel()
        return not turn.cancelled()

    def _leave_seat(self) -> None:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free_seats += 1

    async def _ready_child(self, run: ProcessRun) -> ChildProcess | None:
        """A child that waits for a job; or nothing, and then the run is called off."""
        if run.called_off.done():
            return None
        try:
            minder = self._idle.pop() if self._idle else self._start()
        except OSError as error:
            await self._give_back(run, ChildNotStarted(self._target, str(error), ""))
            return None
        try:
            awaited = (minder.ready, run.called_off)
            await asyncio.wait(awaited, timeout=START_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._keep(minder)
            raise
        if run.called_off.done():
            self._keep(minder)
            return None
        if minder.ready.done() and minder.ready.result():
            self._trouble.over()
            return await self._ready_child(run) if minder.is_gone else minder
        await self._not_started(minder, run)
        return None

    async def _not_started(self, minder: ChildProcess, run: ProcessRun) -> None:
        if minder.body.given_up:
            run.call_off(Returned())
            return
        reason = minder.how if minder.is_gone else f"was not ready after {START_LIMIT:g} s"
        minder.kill()
        await self._give_back(run, ChildNotStarted(self._target, reason, minder.tail))

    async def _give_back(self, run: ProcessRun, event: ChildNotStarted) -> None:
        """Nothing is wrong with the job: it is given back, but not so soon that we spin."""
        with contextlib.suppress(Exception):
            self._emit(event)
        pause = self._trouble.pause(asyncio.get_running_loop().time())
        await asyncio.wait((run.called_off,), timeout=pause)
        run.call_off(Returned("given back: no process could be started for it"))

    def _start(self) -> ChildProcess:
        massacres = self._massacres
        minder = ChildProcess(self._target, environment=self._environment)
        minder.gone.add_done_callback(lambda _: self._buried(minder))
        with self._lock:
            self._minders.add(minder)
            until = self._lease_until
        if until is not None:
            minder.lease_until(until)
        if massacres != self._massacres:  # one that did not see this child
            minder.kill()
        return minder

    def _buried(self, minder: ChildProcess) -> None:
        if minder in self._idle:
            self._idle.remove(minder)
        with self._lock:
            self._minders.discard(minder)

    def _keep(self, minder: ChildProcess, *, interrupted: bool = False) -> None:
        """For the next job, if it is fit for one.

        What was interrupted in the midst of anything may have left anything behind: a lock that
        is held for ever, half a buffer.
        """
        if minder.is_gone:
            return
        if self._is_closed or interrupted or self._is_worn(minder):
            minder.retire()
        else:
            self._idle.append(minder)

    def _is_worn(self, minder: ChildProcess) -> bool:
        most_jobs, most_bytes = self._recycle_jobs, self._recycle_bytes
        if most_jobs is not None and minder.jobs >= most_jobs:
            return True
        return most_bytes is not None and minder.body.resident() > most_bytes

    async def _all_gone(self, seconds: float) -> None:
        waited_for = [minder.gone for minder in self._minders]
        if waited_for:
            await asyncio.wait(waited_for, timeout=seconds)
