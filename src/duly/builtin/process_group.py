"""A program that runs for a job: its process group and its output.

A program may print anything: bytes that are not text, a line without an end, more than any log
keeps. Its output is always read, because a program blocks when its pipe is full; how much of it is
kept is bounded.
"""

import asyncio
import codecs
import logging
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from duly.builtin import job
from duly.clock import boottime, sleep
from duly.model.journal import MOST_LINES, MOST_TEXT
from duly.model.payload import storable
from duly.registry.context import ProcessGuard

LONGEST_LINE: Final = 4_000  # characters; the rest of it is counted
TAIL: Final = 2_000  # characters
# How long to wait for the end of the output: a stray process may hold the pipe.
LINGER: Final = 1.0
_CHUNK: Final = 64 * 1024


class Output:
    """Two pipes, for stdout and stderr, read into the log of the job."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tail = ""
        self._lines_left = MOST_LINES
        self._text_left = MOST_TEXT
        self._listeners: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.BaseTransport] = []
        self.ends: list[int] = []  # writing ends of stdout and stderr

    @property
    def tail(self) -> str:
        """The end of the output of both pipes, in the order of arrival."""
        return storable(self._tail.strip("\n")[-TAIL:])

    async def __aenter__(self) -> Self:
        try:
            await self._listen(logging.INFO)
            await self._listen(logging.WARNING)
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hand_over()
        try:
            await self.silence()
        finally:
            self._close()

    def hand_over(self) -> None:
        """Close our copies of the writing ends, which would keep the pipes open."""
        while self.ends:
            os.close(self.ends.pop())

    async def silence(self) -> None:
        """Wait until the pipes are closed, or a moment: a stray process may hold them."""
        await asyncio.wait(self._listeners, timeout=LINGER)

    async def _listen(self, level: int) -> None:
        reading, writing = os.pipe()
        self.ends.append(writing)
        reader = asyncio.StreamReader(limit=_CHUNK)
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(reading, "rb", 0))
        self._transports.append(transport)
        self._listeners.append(loop.create_task(self._read(reader, level)))

    async def _read(self, reader: asyncio.StreamReader, level: int) -> None:
        lines = LineDecoder()
        while data := await reader.read(_CHUNK):
            if self._is_full:  # its lines are dropped: this is a hundred times faster
                self._keep_tail(data[-4 * TAIL :].decode(errors="replace"))
            else:
                self._log_lines(lines.feed(data), level)
        self._log_lines(lines.end(), level)

    @property
    def _is_full(self) -> bool:
        """Return whether the log of the job is full."""
        return self._lines_left <= 0 or self._text_left <= 0

    def _log_lines(self, lines: Sequence[str], level: int) -> None:
        self._keep_tail("".join(f"{line}\n" for line in lines))
        for line in lines:
            if self._is_full:
                return
            self._lines_left -= 1
            self._text_left -= len(line)
            self._log.log(level, "%s", line)

    def _keep_tail(self, text: str) -> None:
        self._tail = (self._tail + text)[-TAIL - 1 :]

    def _close(self) -> None:
        self.hand_over()
        for listener in self._listeners:
            listener.cancel()
        for transport in self._transports:
            transport.close()


class LineDecoder:
    """Decodes bytes into lines of text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""
        self._cut = 0  # characters of the current line that are dropped

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that are complete."""
        *ended, begun = self._decoder.decode(data).split("\n")
        lines = [self._ended(text) for text in ended]
        self._grow(begun)
        return lines

    def end(self) -> list[str]:
        """Return the last line, if it has no line break."""
        self._grow(self._decoder.decode(b"", final=True))
        return [self._ended("")] if self._begun else []

    def _grow(self, text: str) -> None:
        room = LONGEST_LINE - len(self._begun)
        self._begun += text[:room]
        self._cut += max(0, len(text) - room)

    def _ended(self, text: str) -> str:
        self._grow(text)
        # Keep the text after the last carriage return, as a terminal shows a progress bar.
        line = self._begun.rstrip("\r").rpartition("\r")[2]
        more = f"… ({self._cut:,} characters more)" if self._cut else ""
        self._begun, self._cut = "", 0
        return line + more


_LOOK_EVERY: Final = 0.05
_REAPED_WITHIN: Final = 1.0
_PROC: Final = Path("/proc")
_DEAD: Final = ("Z", "X")
_FENCED_WITHIN: Final = 30.0  # seconds; the worker stops the job much sooner


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCall:
    argv: Sequence[str]
    cwd: str | None
    environment: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int


class ProcessGroup:
    """A program with every process it starts; ended when the context is left.

    The program leads a session of its own, so a signal to its group reaches everything it has
    started, except processes that left the group (``setsid``). On exit the group gets SIGTERM and
    its ``grace``, all of it and not only the leader: the shell around a program dies at once, and
    the program may have to clean up. Then it is killed.

    A worker that is killed or stopped cannot end anything, and its job will run again elsewhere.
    The job must not run twice at once, so a watchdog process guards the group.
    """

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

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._ask_to_end()
        finally:
            # Also if it is cancelled again: then there is no more grace.
            self._send(signal.SIGKILL)
            if self._guard is not None:
                self._guard.release()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leader.wait(), _REAPED_WITHIN)

    async def ended(self) -> int:
        """Return the exit status of the leader; negative: the number of a signal.

        A group that was killed because the lease is over has no status of its own: the worker
        stops the job as soon as it runs again, and that costs no attempt.
        """
        status = await self._leader.wait()
        if self._guard is not None and self._guard.lease_is_over:
            await sleep(_FENCED_WITHIN)
        return status

    async def is_alive(self) -> bool:
        """Return whether a process of the group is alive. Zombies receive signals, too."""
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
        """Send a signal to the group; return whether it has a process."""
        try:
            os.killpg(self._number, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _is_alive(group: int) -> bool:
    """Return whether a process of the group is alive; True where the system does not tell."""
    return not _PROC.is_dir() or any(
        found_group == group and state not in _DEAD for state, found_group in _processes()
    )


def _processes() -> Iterator[tuple[str, int]]:
    """Yield the state and the group of each process."""
    for stat in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            # The name, in parentheses, may hold anything, also spaces and parentheses.
            found = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
            yield found[0], int(found[2])
