"""The output of a job as lines, bounded in size.

A job has two pipes of its own, which become descriptors 1 and 2 of its child while it runs. So the
output of C code and of subprocesses is captured too, and output that a leftover process of one job
writes later is not attributed to the next job: nothing reads that pipe any more.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable

from duly import clock
from duly.engine.executors.process.frames import CapturedLine, OnLog
from duly.instants import to_us
from duly.model.payload import storable

LONGEST_LINE = 8 * 1024
MOST_PER_JOB = 1024 * 1024
BATCH = 100  # lines
PATIENCE = 0.1  # seconds
_TOO_MUCH = "… more was written than is kept"
_CHUNK = 64 * 1024
# The output of a child that has reported its end is in the pipe, which holds at most this much.
# Reading more would only race with a leftover process that never stops writing.
_FULL_PIPE = 1024 * 1024


class Transcript:
    """Passes the lines of one job on in small batches."""

    def __init__(self, on_log: OnLog) -> None:
        self._on_log = on_log
        self._lines: list[CapturedLine] = []
        self._room = MOST_PER_JOB
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        return self._room < 0

    def add(self, line: CapturedLine) -> None:
        if self._room < 0:
            return
        text = storable(line.text, LONGEST_LINE)
        self._room -= len(text.encode()) + 1
        if self._room < 0:
            self._keep(CapturedLine(line.at_us, "warning", _TOO_MUCH))
        else:
            self._keep(CapturedLine(line.at_us, line.level, text))

    def flush(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        lines, self._lines = self._lines, []
        if lines:
            # An error of the listener must not stop the run.
            with contextlib.suppress(Exception):
                self._on_log(lines)

    def _keep(self, line: CapturedLine) -> None:
        self._lines.append(line)
        if len(self._lines) >= BATCH:
            self.flush()
        elif self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(PATIENCE, self.flush)


class OutputLines:
    """Splits bytes into lines. Only the beginning of an overlong line is kept in memory."""

    def __init__(self, level: str, transcript: Transcript) -> None:
        self._level = level
        self._transcript = transcript
        self._open = bytearray()

    def feed(self, data: bytes) -> None:
        if self._transcript.is_full:
            return  # unread: there may be gigabytes
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._grow(piece)
            self._end()
        self._grow(rest)

    def close(self) -> None:
        if self._open:
            self._end()

    def _grow(self, piece: bytes) -> None:
        # A little more than is kept, so that the line is seen to be longer when it is cut.
        self._open += piece[: max(0, LONGEST_LINE + 4 - len(self._open))]

    def _end(self) -> None:
        text = self._open.removesuffix(b"\r").decode(errors="replace")
        self._open.clear()
        self._transcript.add(CapturedLine(to_us(clock.now()), self._level, text))


class OutputPipe:
    """The pipe for one output stream, read by the event loop while it is open."""

    def __init__(self, feed: Callable[[bytes], None]) -> None:
        self._feed = feed
        self.writing: int
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._read)
        self._closed = False

    def release(self) -> None:
        """Close our copy of the writing end, so that the end of the output is seen."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def close(self) -> None:
        """Read what is in the pipe without waiting, and close it."""
        if self._closed:
            return
        for _ in range(_FULL_PIPE // _CHUNK):
            if not self._read():
                break
        self._closed = True
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self.release()

    def _read(self) -> bool:
        try:
            data = os.read(self._reading, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._reading)
            return False
        self._feed(data)
        return True
