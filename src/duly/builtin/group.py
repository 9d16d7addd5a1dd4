"""A program and everything it starts: one group of processes, which ends as a whole.

The program leads a session of its own, so a signal to its group reaches what it has started, too,
except what has left the group on purpose (``setsid``). It is asked to end (SIGTERM) and has a
``grace`` for that, all of it and not only its leader: the shell around a program dies at once, and
the program may have to tidy up. Then it is killed.

A worker that is killed or stopped cannot end anything, and the job will run again elsewhere. It
must not run beside itself, so its worker has the group guarded by a process outside of both.
"""

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from duly.builtin import job
from duly.clock import boottime, sleep
from duly.registry.context import ProcessGuard

_LOOK_EVERY: Final = 0.05
_REAPED_WITHIN: Final = 1.0
_PROC: Final = Path("/proc")
_DEAD: Final = ("Z", "X")
_FENCED_WITHIN: Final = 30.0  # seconds; whoever finds the lease over stops the job, much sooner


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCall:
    argv: Sequence[str]
    cwd: str | None
    environment: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int


class ProcessGroup:
    """To be entered at once: it is gone where it is left."""

    def __init__(
        self, leader: asyncio.subprocess.Process, *, grace: float, guard: ProcessGuard | None
    ) -> None:
        self._leader = leader
        self._grace = grace
        self._guard = guard
        if guard is not None:
            guard.watch(leader.pid)

    @classmethod
    async def start(cls, command: ProgramCall, *, grace: float) -> Self:
        guard = job.guard()
        leader = await asyncio.create_subprocess_exec(
            *command.argv,
            cwd=command.cwd,
            env=dict(command.environment),
            stdin=command.stdin,
            stdout=command.stdout,
            stderr=command.stderr,
            start_new_session=True,
        )
        return cls(leader, grace=grace, guard=guard)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._ask_to_end()
        finally:
            # Also if it is asked to stop once more: then there is no grace any more.
            self._send(signal.SIGKILL)
            if self._guard is not None:
                self._guard.release()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leader.wait(), _REAPED_WITHIN)

    async def ended(self) -> int:
        """The exit status of its leader, or the number of the signal as its negative.

        What was killed because the lease is over has no status of its own: the worker stops the job
        as soon as it runs again, and then it costs no try.
        """
        status = await self._leader.wait()
        if self._guard is not None and self._guard.lease_is_over:
            await sleep(_FENCED_WITHIN)
        return status

    async def is_alive(self) -> bool:
        """Whether anybody in it is. Who is dead and not yet waited for receives signals, too."""
        if not self._send(0):
            return False
        return self._leader.returncode is None or await asyncio.to_thread(_is_alive, self._number)

    async def _ask_to_end(self) -> None:
        if not self._send(signal.SIGTERM):
            return
        deadline = boottime() + self._grace
        while boottime() < deadline and await self.is_alive():
            await sleep(_LOOK_EVERY)

    @property
    def _number(self) -> int:
        return self._leader.pid

    def _send(self, number: int) -> bool:
        """Whether there is anybody to receive it."""
        try:
            os.killpg(self._number, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _is_alive(group: int) -> bool:
    """Where the system does not tell, whoever receives signals is taken to be alive."""
    return not _PROC.is_dir() or any(
        found_group == group and state not in _DEAD for state, found_group in _processes()
    )


def _processes() -> Iterator[tuple[str, int]]:
    """State and group of each."""
    for stat in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            # The name, in parentheses, may hold anything, also spaces and parentheses.
            found = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
            yield found[0], int(found[2])
