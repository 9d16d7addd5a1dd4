"""One child process in the worker: its start, its connection, its end.

A child is a fresh interpreter in a session and a process group of its own. It is not forked: this
program has threads, and a fork would inherit their locks without the threads. ``multiprocessing``
is not used, because it speaks pickle.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import assert_never

from duly.clock import boottime
from duly.engine.executors.process.frames import (
    BegunFrame,
    ChildSocket,
    CompletedFrame,
    DoneFrame,
    EndFrame,
    FailedFrame,
    FromChild,
    LeaseFrame,
    LoadFrame,
    LogFrame,
    MismatchFrame,
    ProgressFrame,
    ReadyFrame,
)
from duly.engine.executors.process.kernel import KernelProcess, describe_exit
from duly.engine.executors.process.output import OutputPipe
from duly.engine.executors.process.run import ProcessRun
from duly.engine.process_identity import close_in_forks, identity, may_be_inherited
from duly.model.outcome import Completed, Outcome

_MODULE = "duly.engine.executors.process.child"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    process: KernelProcess
    socket: socket.socket
    lifeline: int  # the child holds the other end and dies when this one is closed


def spawn(target: str, *, environment: Mapping[str, str], output: int) -> Spawned:
    """Start a child that imports ``target`` and writes to ``output`` while it has no job.

    The kernel kills the child when the *thread* ends that started it (PR_SET_PDEATHSIG), so this is
    called on the event loop's thread, which outlives the pool.
    """
    with ExitStack() as ours, ExitStack() as theirs:
        here, there = socket.socketpair()
        ours.enter_context(here)
        theirs.enter_context(there)
        reading, writing = os.pipe()
        ours.callback(os.close, writing)
        theirs.callback(os.close, reading)
        here.setblocking(False)  # noqa: FBT003 – it has no name
        process = subprocess.Popen(  # noqa: S603 – our own interpreter
            _command(target, socket=there.fileno(), lifeline=reading),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(there.fileno(), reading),
            start_new_session=True,
            env={**os.environ, **environment},
        )
        ours.pop_all()
    return Spawned(process=KernelProcess(process), socket=here, lifeline=writing)


def _command(target: str, *, socket: int, lifeline: int) -> list[str]:
    # The death watch recognises the children of a dead worker by their command line.
    parent = identity(os.getpid())
    descriptors = ["--socket", str(socket), "--lifeline", str(lifeline)]
    return [sys.executable, "-m", _MODULE, "--parent", parent, *descriptors, "--", target]


_TAIL = 8 * 1024  # bytes of its output outside of jobs that are kept
_GOODBYE = 1.0  # seconds for a child to exit by itself
_LOOK_EVERY = 0.1  # seconds, where the kernel does not notify about the end of a process


class ChildProcess:
    """The worker's handle on one child, from its start until it is reaped."""

    def __init__(self, target: str, *, environment: Mapping[str, str]) -> None:
        self._loop = asyncio.get_running_loop()
        # Its result is False if the child died before it was ready.
        self.ready: asyncio.Future[bool] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.jobs: int = 0
        self.end_reason: str = ""  # set when it has ended
        self._run: ProcessRun | None = None
        self._tail = b""
        self._kill_timer: asyncio.TimerHandle | None = None
        self._pidfd: int | None = None
        self._output = OutputPipe(self._keep_tail)
        try:
            spawned = spawn(target, environment=environment, output=self._output.writing)
        except BaseException:
            self._output.close()
            raise
        self._output.release()
        self.process: KernelProcess = spawned.process
        self._lifeline: int | None = spawned.lifeline
        close_in_forks(spawned.lifeline)
        self._until: float | None = None  # end of the worker's lease, if one is known
        self._socket = ChildSocket(
            spawned.socket, on_frame=self._receive, on_lost=self._connection_lost
        )
        try:
            self._socket.listen()
            self._watch()
        except BaseException:
            self._kill_and_forget()
            raise
        self._socket.send(LoadFrame(tuple(entry or os.getcwd() for entry in sys.path)))  # noqa: PTH109

    @property
    def is_gone(self) -> bool:
        return self.gone.done()

    @property
    def tail(self) -> str:
        """The end of its output while it had no job."""
        return self._tail.decode(errors="replace")

    async def run(self, run: ProcessRun) -> Outcome | Completed:
        """Run a job; when cancelled, kill the child: the job may be started elsewhere."""
        self.jobs += 1
        self._run = run
        try:
            run.start(self.process, self._socket)
            return await run.outcome
        except BaseException:
            self.kill()
            await asyncio.wait((self.gone,), timeout=_GOODBYE)
            raise
        finally:
            self._run = None

    def retire(self) -> None:
        """Close the connection, so that the child exits; kill it if it does not."""
        self._socket.close()
        self._kill_timer = self._loop.call_later(_GOODBYE, self.kill)

    def lease_until(self, moment: float) -> None:
        """Tell the child until when it may run a job. May be called from any thread."""
        self._until = moment
        self._socket.send(LeaseFrame(moment))

    def kill(self) -> None:
        """Kill it for a reason that has nothing to do with the job."""
        self.process.kill_now()

    def forget(self) -> None:
        """Release every resource, even if the kernel has not ended the process yet."""
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._socket.close()
        self._output.close()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if self._lifeline is not None:
            may_be_inherited(self._lifeline)
            os.close(self._lifeline)
            self._lifeline = None

    def _kill_and_forget(self) -> None:
        """Kill a child that cannot be watched."""
        self.process.kill_now()
        self.forget()
        self._reap()

    def _reap(self) -> None:
        if self.process.reap() is None:
            self._loop.call_later(_LOOK_EVERY, self._reap)

    def _watch(self) -> None:
        if sys.platform == "linux":
            self._pidfd = os.pidfd_open(self.process.pid)
            self._loop.add_reader(self._pidfd, self._look)
        else:
            self._loop.call_later(_LOOK_EVERY, self._look_again)

    def _look_again(self) -> None:
        self._look()
        if not self.is_gone and self._lifeline is not None:
            self._loop.call_later(_LOOK_EVERY, self._look_again)

    def _look(self) -> None:
        status = self.process.reap()
        if status is None:
            return
        self.end_reason = describe_exit(status)
        self._socket.drain()
        if self._run is not None and not self._run.outcome.done():
            over = self._until is not None and boottime() >= self._until
            self._run.died(self.end_reason, killed_by_worker=self.process.killed_by_worker or over)
        self.forget()
        if not self.ready.done():
            self.ready.set_result(False)
        if not self.gone.done():
            self.gone.set_result(None)

    def _connection_lost(self) -> None:
        # Usually the child is exiting. Else it sent an invalid frame, or a task has closed every
        # descriptor it found: there is no way to talk to it.
        self._kill_timer = self._loop.call_later(_GOODBYE, self.process.send, signal.SIGKILL)

    def _keep_tail(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-_TAIL:]

    def _receive(self, frame: FromChild) -> None:
        if isinstance(frame, ReadyFrame):
            if not self.ready.done():
                self.ready.set_result(True)
        elif self._run is not None:
            _pass_on(frame, self._run)


def _pass_on(frame: BegunFrame | ProgressFrame | LogFrame | EndFrame, run: ProcessRun) -> None:
    match frame:
        case BegunFrame():
            run.begun()
        case LogFrame():
            run.logged(frame)
        case ProgressFrame():
            run.progressed(frame)
        case DoneFrame() | CompletedFrame() | FailedFrame() | MismatchFrame():
            run.ended(frame)
        case _:
            assert_never(frame)
