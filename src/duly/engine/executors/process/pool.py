"""The executor for jobs in child processes, and its pool of children.

A child is started when a job needs one and none is idle, and kept for the next job. At most
``size`` jobs run at once; further ones wait for a slot.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeAlias

from duly.engine.execution import Execution, StopReason, raised
from duly.engine.executors import LoopTimers, OnEnd
from duly.engine.executors.process.child_process import ChildProcess
from duly.engine.executors.process.frames import (
    CapturedLine,
    OnLog,
    OnProgress,
    RunRequest,
    facts_of,
)
from duly.engine.executors.process.run import ProcessRun
from duly.engine.lease import LEASE
from duly.errors import StoreUnavailable
from duly.events import ChildNotStarted
from duly.model.job import Claimed
from duly.model.outcome import Completed, Outcome, Returned, TimedOut

FIRST_PAUSE = 1.0  # seconds
LONGEST_PAUSE = 30.0


class StartBackoff:
    """A pause that grows while children fail to start."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE
        self._until = 0.0

    def pause(self, now: float) -> float:
        """Return how long to wait; a failure during a pause does not extend it."""
        if now >= self._until:
            self._until = now + self._next
            self._next = min(2 * self._next, LONGEST_PAUSE)
        return self._until - now

    def reset(self) -> None:
        self._next = FIRST_PAUSE


Emit: TypeAlias = Callable[[ChildNotStarted], None]
OnReady: TypeAlias = Callable[[], Awaitable[bool]]

START_LIMIT = 300.0  # seconds to import an application, from a cold disk if need be
_GOODBYE = 0.5
_LAST_LOOK = 0.4
_NOTHING: Mapping[str, str] = MappingProxyType({})


class ProcessPool:
    """A pool of child processes; its methods are for the event loop's thread, unless they say so.

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
        self._free_slots = size
        self._waiting: deque[asyncio.Future[None]] = deque()  # runs that wait for a slot
        self._runs: dict[int, ProcessRun] = {}
        self._idle: list[ChildProcess] = []
        self._backoff = StartBackoff()
        self._lock = threading.Lock()  # guards the next three, which other threads read
        self._children: set[ChildProcess] = set()
        self._kills = 0
        self._lease_until: float | None = None
        self._is_closed = False

    async def run(
        self,
        request: RunRequest,
        *,
        on_log: OnLog,
        on_progress: OnProgress,
        on_ready: OnReady | None = None,
    ) -> Outcome | Completed:
        """Run a job and return its outcome. Cancelling this call kills the job.

        ``on_ready`` is awaited when a child is ready; if it returns False, the job does not begin.
        """
        job_id = request.job_id
        run = ProcessRun(request, on_log=on_log, on_progress=on_progress)
        self._runs[job_id] = run
        try:
            return await self._run_in_slot(run, on_ready, kills=self._kills)
        finally:
            run.close()
            if self._runs.get(job_id) is run:
                del self._runs[job_id]

    def cancel(self, job_id: int, reason: str) -> None:
        """Ask a job to end and kill it after its grace. An unknown job is no error."""
        run = self._runs.get(job_id)
        if run is not None:
            run.cancel(reason)

    def kill_everything(self) -> None:
        """Kill every child now. Running jobs are lost, waiting ones given back. From any thread."""
        with self._lock:
            self._kills += 1
            children = list(self._children)
        for child in children:
            child.kill()

    def lease_until(self, moment: float) -> None:
        """Let children end at ``moment`` unless this is called again. From any thread."""
        with self._lock:
            self._lease_until = moment
            children = list(self._children)
        for child in children:
            child.lease_until(moment)

    def pids(self) -> list[int]:
        """Return the PIDs of the children. From any thread."""
        with self._lock:
            found = [child.process for child in self._children]
        return sorted(one.pid for one in found if not one.is_reaped)

    async def close(self) -> None:
        """End every child within a second; idle ones may exit by themselves first."""
        self._is_closed = True
        for run in self._runs.values():
            run.call_off(Returned())
        for child in self._children:
            if child in self._idle:
                child.retire()
            else:
                child.kill()
        self._idle.clear()
        await self._all_gone(_GOODBYE)
        for child in self._children:
            child.kill()
        await self._all_gone(_LAST_LOOK)
        for child in self._children:
            child.forget()

    async def _run_in_slot(
        self, run: ProcessRun, on_ready: OnReady | None, *, kills: int
    ) -> Outcome | Completed:
        if self._is_closed:
            return Returned()
        if not await self._take_slot(run):
            return run.called_off.result()
        try:
            child = await self._ready_child(run)
            if child is None:
                return run.called_off.result()
            begins = on_ready is None or await self._begins(on_ready, child)
            if run.called_off.done():
                self._keep(child)
                return run.called_off.result()
            if not begins or child.is_gone or kills != self._kills:
                self._keep(child)
                return Returned()
            outcome = await child.run(run)
            self._keep(child, interrupted=isinstance(outcome, TimedOut))
            return outcome
        finally:
            self._free_slot()

    async def _begins(self, on_ready: OnReady, child: ChildProcess) -> bool:
        try:
            return await on_ready()
        except BaseException:
            self._keep(child)
            raise

    async def _take_slot(self, run: ProcessRun) -> bool:
        """Wait for a slot; return False if the run was called off before."""
        if self._free_slots:
            self._free_slots -= 1
            return True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait((turn, run.called_off), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if turn.done():
                self._free_slot()
            raise
        finally:
            turn.cancel()
        return not turn.cancelled()

    def _free_slot(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free_slots += 1

    async def _ready_child(self, run: ProcessRun) -> ChildProcess | None:
        """Return a child that is ready for a job, or None if the run was called off."""
        if run.called_off.done():
            return None
        try:
            child = self._idle.pop() if self._idle else self._start()
        except OSError as error:
            await self._give_back(run, ChildNotStarted(self._target, str(error), ""))
            return None
        try:
            awaited = (child.ready, run.called_off)
            await asyncio.wait(awaited, timeout=START_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._keep(child)
            raise
        if run.called_off.done():
            self._keep(child)
            return None
        if child.ready.done() and child.ready.result():
            self._backoff.reset()
            return await self._ready_child(run) if child.is_gone else child
        await self._not_started(child, run)
        return None

    async def _not_started(self, child: ChildProcess, run: ProcessRun) -> None:
        if child.process.killed_by_worker:
            run.call_off(Returned())
            return
        reason = child.end_reason if child.is_gone else f"was not ready after {START_LIMIT:g} s"
        child.kill()
        await self._give_back(run, ChildNotStarted(self._target, reason, child.tail))

    async def _give_back(self, run: ProcessRun, event: ChildNotStarted) -> None:
        """Give the job back after a pause, so that a broken import does not keep us busy."""
        with contextlib.suppress(Exception):
            self._emit(event)
        pause = self._backoff.pause(asyncio.get_running_loop().time())
        await asyncio.wait((run.called_off,), timeout=pause)
        run.call_off(Returned("given back: no process could be started for it"))

    def _start(self) -> ChildProcess:
        kills = self._kills
        child = ChildProcess(self._target, environment=self._environment)
        child.gone.add_done_callback(lambda _: self._forget(child))
        with self._lock:
            self._children.add(child)
            until = self._lease_until
        if until is not None:
            child.lease_until(until)
        if kills != self._kills:  # by a thread that did not see this child
            child.kill()
        return child

    def _forget(self, child: ChildProcess) -> None:
        if child in self._idle:
            self._idle.remove(child)
        with self._lock:
            self._children.discard(child)

    def _keep(self, child: ChildProcess, *, interrupted: bool = False) -> None:
        """Keep a child for the next job, or let it exit.

        A child whose task was interrupted exits: the interruption may have left a lock held for
        ever, or half a buffer.
        """
        if child.is_gone:
            return
        if self._is_closed or interrupted or self._is_worn(child):
            child.retire()
        else:
            self._idle.append(child)

    def _is_worn(self, child: ChildProcess) -> bool:
        most_jobs, most_bytes = self._recycle_jobs, self._recycle_bytes
        if most_jobs is not None and child.jobs >= most_jobs:
            return True
        return most_bytes is not None and child.process.resident() > most_bytes

    async def _all_gone(self, seconds: float) -> None:
        waited_for = [child.gone for child in self._children]
        if waited_for:
            await asyncio.wait(waited_for, timeout=seconds)


class LogListener(Protocol):
    """Receives the output of jobs."""

    def lines(self, job: Claimed, lines: Sequence[CapturedLine]) -> None: ...


class NoteBegin(Protocol):
    """Notes whether a claimed job has begun; returns whether it is still claimed."""

    async def __call__(self, job: Claimed, /, *, begun: bool) -> bool: ...


class ProcessExecutor(LoopTimers):
    def __init__(
        self,
        pool: ProcessPool,
        *,
        listener: LogListener,
        url: str | None = None,
        lease: timedelta = LEASE,
        note_begin: NoteBegin | None = None,
    ) -> None:
        """``note_begin`` notes that a job waits for its child, and then that it begins."""
        self._pool = pool
        self._note_begin = note_begin
        self.concurrency: int = pool.size
        self._listener = listener
        self._url = url
        self._lease = lease
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop holds tasks only weakly

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:  # noqa: ARG002
        """The child decodes the arguments itself; the worker has only checked them."""
        task = asyncio.get_running_loop().create_task(self._run(run, over))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        run.stopper = lambda reason: self._stop(run, task, reason)

    def expire_after(
        self, run: Execution, timeout: timedelta, expired: Callable[[Execution], None]
    ) -> None:
        """The pool enforces the timeout itself."""

    def kill(self) -> None:
        self._pool.kill_everything()

    def lease_until(self, moment: float) -> None:
        self._pool.lease_until(moment)

    async def close(self) -> None:
        await self._pool.close()

    async def _run(self, run: Execution, over: OnEnd) -> None:
        definition, job = run.definition, run.job
        request = RunRequest(
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
        note = self._note_begin
        try:
            if note:
                await note(job, begun=False)
            outcome = await self._pool.run(
                request,
                on_log=lambda lines: self._listener.lines(job, lines),
                on_progress=run.progress,
                on_ready=partial(note, job, begun=True) if note else None,
            )
        except asyncio.CancelledError:
            pass
        except StoreUnavailable:
            outcome = Returned("given back unstarted: the store did not answer")
        except Exception as error:  # noqa: BLE001 - as when there are no more descriptors: the attempt has failed
            outcome = raised(error, definition.retry)
        finally:
            over(run, outcome)

    def _stop(self, run: Execution, task: "asyncio.Task[None]", reason: str) -> None:
        if run.why in (StopReason.FENCED, StopReason.INTERRUPTED):
            task.cancel()  # which kills the child
        else:
            self._pool.cancel(run.job.id, reason)
