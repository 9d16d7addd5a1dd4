"""Who looks after one child in the worker, from its start to its burial."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from typing import assert_never

from duly.clock import boottime
from duly.engine.executors.process.body import how_it_ended
from duly.engine.executors.process.capture import OutputPipe
from duly.engine.executors.process.frames import (
    BegunFrame,
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
from duly.engine.executors.process.run import ProcessRun
from duly.engine.executors.process.spawning import spawn
from duly.engine.executors.process.wire import ChildSocket
from duly.engine.process_identity import close_in_forks, may_be_inherited
from duly.model.outcome import Completed, Outcome

_TAIL = 8 * 1024  # bytes of what it wrote outside of jobs
_GOODBYE = 1.0  # seconds for a child that may go to do so by itself
_LOOK_EVERY = 0.1  # seconds, where the kernel does not tell when a process ends


class ChildProcess:
    def __init__(self, target: str, *, environment: Mapping[str, str]) -> None:
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[bool] = self._loop.create_future()  # False: it died before
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.jobs = 0
        self.how = ""  # it ended
        self._run: ProcessRun | None = None
        self._tail = b""
        self._farewell: asyncio.TimerHandle | None = None
        self._pidfd: int | None = None
        self._output = OutputPipe(self._overhear)
        try:
            spawned = spawn(target, environment=environment, output=self._output.writing)
        except BaseException:
            self._output.close()
            raise
        self._output.release()
        self.body = spawned.body
        self._lifeline: int | None = spawned.lifeline
        close_in_forks(spawned.lifeline)
        self._until: float | None = None  # what it runs may do so, if that is limited
        self._wire = ChildSocket(spawned.socket, hear=self._hear, lost=self._hung_up)
        try:
            self._wire.listen()
            self._watch()
        except BaseException:
            self._abandon()
            raise
        self._wire.send(LoadFrame(tuple(entry or os.getcwd() for entry in sys.path)))  # noqa: PTH109

    @property
    def is_gone(self) -> bool:
        return self.gone.done()

    @property
    def tail(self) -> str:
        """The end of what it wrote while it had no job."""
        return self._tail.decode(errors="replace")

    async def work_on(self, run: ProcessRun) -> Outcome | Completed:
        """Run it to its end. When cancelled, kill it: who cancels may give the job to another."""
        self.jobs += 1
        self._run = run
        try:
            run.start(self.body, self._wire)
            return await run.outcome
        except BaseException:
            self.kill()
            await asyncio.wait((self.gone,), timeout=_GOODBYE)
            raise
        finally:
            self._run = None

    def retire(self) -> None:
        """Let it go, and see to it that it does."""
        self._wire.close()
        self._farewell = self._loop.call_later(_GOODBYE, self.kill)

    def lease_until(self, moment: float) -> None:
        """From any thread: it may run a job until then, and ends itself if it hears no more."""
        self._until = moment
        self._wire.send(LeaseFrame(moment))

    def kill(self) -> None:
        """End it for a reason that is not the job's."""
        self.body.give_up()

    def forget(self) -> None:
        """Hold nothing of it any more, dead or not: the kernel may be unable to end it just now."""
        if self._farewell is not None:
            self._farewell.cancel()
        self._wire.close()
        self._output.close()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if self._lifeline is not None:
            may_be_inherited(self._lifeline)
            os.close(self._lifeline)
            self._lifeline = None

    def _abandon(self) -> None:
        """Nobody could look after it."""
        self.body.give_up()
        self.forget()
        self._bury()

    def _bury(self) -> None:
        if self.body.bury() is None:
            self._loop.call_later(_LOOK_EVERY, self._bury)

    def _watch(self) -> None:
        if sys.platform == "linux":
            self._pidfd = os.pidfd_open(self.body.pid)
            self._loop.add_reader(self._pidfd, self._look)
        else:
            self._loop.call_later(_LOOK_EVERY, self._look_again)

    def _look_again(self) -> None:
        self._look()
        if not self.is_gone and self._lifeline is not None:
            self._loop.call_later(_LOOK_EVERY, self._look_again)

    def _look(self) -> None:
        status = self.body.bury()
        if status is None:
            return
        self.how = how_it_ended(status)
        self._wire.drain()
        if self._run is not None and not self._run.outcome.done():
            over = self._until is not None and boottime() >= self._until
            self._run.died(self.how, given_up=self.body.given_up or over)
        self.forget()
        if not self.ready.done():
            self.ready.set_result(False)
        if not self.gone.done():
            self.gone.set_result(None)

    def _hung_up(self) -> None:
        # It is on its way out, as a rule. Or what it said made no sense, or a task has closed
        # every descriptor it found: there is no more talking to it.
        self._farewell = self._loop.call_later(_GOODBYE, self.body.send, signal.SIGKILL)

    def _overhear(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-_TAIL:]

    def _hear(self, frame: FromChild) -> None:
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
