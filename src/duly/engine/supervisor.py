"""The supervisor: starts several worker processes for one command and replaces those that die.

Each process is a worker with a lease of its own; the supervisor touches no store. A process that
dies is replaced, at once the first time, and after a growing pause if it dies again soon after its
start. A process that exits with 0 has done its work and is not replaced.

The processes have sessions of their own, so that Ctrl-C reaches only the supervisor, which passes
it on once. They do not outlive the supervisor: see ``follow``.

A process without a supervisor that has to end while its service goes on replaces itself: see
``start_anew``.
"""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from duly.clock import boottime
from duly.engine.loop import Waiter
from duly.engine.process_identity import die_with_parent, identity
from duly.events import Emit, ProcessReplaced, TickFailed, ignore_event

# The environment variable with the identity of the supervisor.
SUPERVISOR: Final = "DULY_SUPERVISOR"
# The environment variable with the identity of a parent that is no supervisor.
PARENT: Final = "DULY_PARENT"
# The environment variable of a process that has replaced itself.
STARTED_ANEW: Final = "DULY_STARTED_ANEW"
# A process that lived this long was able to start: its death counts as the first one again.
WELL_SECONDS = 2.0
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
# Exit codes that another start would not change: a wrong option, or no app.
HOPELESS = (2, 3)


def follow() -> Callable[[int], object]:
    """Die with the supervisor of this process, or with a parent that asks for it (Linux).

    Return the function with which this process may end itself and be replaced.
    """
    supervisor = os.environ.pop(SUPERVISOR, None)
    parent = os.environ.pop(PARENT, supervisor)
    if parent is not None:
        die_with_parent(parent)
    if supervisor is None:
        return partial(start_anew, folder=os.getcwd())  # noqa: PTH109
    return os._exit  # the supervisor replaces it


def followed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child process that dies with this one: see ``follow``."""
    return {**environment, PARENT: identity(os.getpid())}


def start_anew(code: int, *, folder: str) -> None:
    """Replace this process by a fresh one of the same command; exit with ``code`` if that fails.

    Nothing of this one is left: its threads and memory are gone, its children are killed by the
    kernel (Linux) because the thread that started them ends. To whoever started it, the service is
    still the same process. From any thread but the main one, which has started the children.
    """
    os.environ[STARTED_ANEW] = "1"
    try:
        os.chdir(folder)  # relative paths of the command stay valid
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves
    except OSError:
        os._exit(code)


def was_started_anew() -> bool:
    """Return whether this process has replaced itself. To be called once, at the start.

    The dead children of the former program are ours: they are reaped, so that none stays a zombie.
    """
    if os.environ.pop(STARTED_ANEW, None) is None:
        return False
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    return True


class Supervisor:
    """``commands`` has the command line of each process; everything runs on one event loop.

    Its thread must outlive the processes: the kernel kills them when it ends.
    """

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        *,
        environment: Mapping[str, str] | None = None,
        emit: Emit = ignore_event,
        time: Callable[[], float] = boottime,
    ) -> None:
        self._processes = [_Supervised(command, time) for command in commands]
        self._environment = {
            **(os.environ if environment is None else environment),
            SUPERVISOR: identity(os.getpid()),
        }
        self._emit = emit
        self._stopping = asyncio.Event()

    @property
    def pids(self) -> list[int]:
        """The PIDs of the processes that live."""
        return [one.process.pid for one in self._processes if one.lives and one.process]

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Pass a signal on; processes that end from now on are not replaced."""
        self._stopping.set()
        for one in self._processes:
            one.wake.set()
            if one.lives and one.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    one.process.send_signal(number)

    async def run(self) -> int:
        """Run until all have ended; return the exit code, the first that is not 0."""
        try:
            codes = await asyncio.gather(*(self._keep(one) for one in self._processes))
        finally:
            self._kill()
        return next((code for code in codes if code), 0)

    async def _keep(self, one: "_Supervised") -> int:
        replaced: tuple[int, str] | None = None
        while not self._stopping.is_set():
            try:
                process = await one.start(self._environment)
            except OSError as error:  # no more processes or memory just now: the others go on
                self._emit(TickFailed("supervisor", error))
                one.died()
                await one.wake.rest(one.pause())
                continue
            if replaced is not None:
                self._emit(ProcessReplaced(*replaced))
            if self._stopping.is_set():  # stopped while it was being started
                process.terminate()
            code = await one.ended()
            if code == 0 or self._stopping.is_set():
                return 0
            if code in HOPELESS and replaced is None:
                self.stop()
                return code
            replaced = (process.pid, _said(code))
            await one.wake.rest(one.pause())
        return 0

    def _kill(self) -> None:
        for one in self._processes:
            if one.lives and one.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    one.process.kill()


class _Supervised:
    """One process, and its predecessors."""

    def __init__(self, command: Sequence[str], time: Callable[[], float]) -> None:
        self._command = command
        self._time = time
        self._began = 0.0
        self.process: Process | None = None
        self.lives = False
        self.deaths = 0  # in a row, each soon after its start
        self.wake = Waiter()

    async def start(self, environment: Mapping[str, str]) -> Process:
        self._began = self._time()
        self.process = await asyncio.create_subprocess_exec(
            *self._command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        self.lives = True
        return self.process

    async def ended(self) -> int:
        assert self.process is not None  # noqa: S101 - it was started
        code = await self.process.wait()
        self.died()
        return code

    def died(self) -> None:
        self.lives = False
        was_well = self._time() - self._began >= WELL_SECONDS
        self.deaths = 1 if was_well else self.deaths + 1

    def pause(self) -> float:
        return float(min(FIRST_PAUSE * 2 ** min(self.deaths - 1, 10), LONGEST_PAUSE))


def _said(code: int) -> str:
    if code >= 0:
        return f"ended with {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
