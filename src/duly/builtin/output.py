"""What a program prints: line by line into the job's log, and the last of it kept.

A program may print anything: bytes that are no text, a line without an end, more than any log
keeps. It is read on whatever it prints, because who is not read stops; what is remembered of it is
bounded.
"""

import asyncio
import codecs
import logging
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from duly.model.journal import MOST_LINES, MOST_TEXT
from duly.model.payload import storable

LONGEST_LINE: Final = 4_000  # characters; the rest of it is counted
TAIL: Final = 2_000  # characters
# How long output is waited for when all who should write it are gone: somebody else may hold it.
LINGER: Final = 1.0
_CHUNK: Final = 64 * 1024


class Output:
    """Two pipes, for stdout and stderr, and who listens at the other ends."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tail = ""
        self._lines_left = MOST_LINES
        self._text_left = MOST_TEXT
        self._listeners: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.BaseTransport] = []
        self.ends: list[int] = []  # of stdout and stderr: what the program writes to

    @property
    def tail(self) -> str:
        """The last of it, from both pipes, as it came."""
        return storable(self._tail.strip("\n")[-TAIL:])

    async def __aenter__(self) -> Self:
        try:
            await self._listen(logging.INFO)
            await self._listen(logging.WARNING)
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.hand_over()
        try:
            await self.silence()
        finally:
            self._close()

    def hand_over(self) -> None:
        """The program has its ends of the pipes; ours would keep them open."""
        while self.ends:
            os.close(self.ends.pop())

    async def silence(self) -> None:
        """Until nobody writes any more, or for a moment: a stray process may hold the pipe."""
        await asyncio.wait(self._listeners, timeout=LINGER)

    async def _listen(self, level: int) -> None:
        reading, writing = os.pipe()
        self.ends.append(writing)
        reader = asyncio.StreamReader(limit=_CHUNK)
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(reading, "rb", 0))
        self._transports.append(transport)
        self._listeners.append(loop.create_task(self._hear(reader, level)))

    async def _hear(self, reader: asyncio.StreamReader, level: int) -> None:
        lines = LineDecoder()
        while heard := await reader.read(_CHUNK):
            if self._is_full:  # nobody will read its lines: a hundred times faster
                self._remember(heard[-4 * TAIL :].decode(errors="replace"))
            else:
                self._say(lines.feed(heard), level)
        self._say(lines.end(), level)

    @property
    def _is_full(self) -> bool:
        """Whether the log of a job is: it says so itself."""
        return self._lines_left <= 0 or self._text_left <= 0

    def _say(self, lines: Sequence[str], level: int) -> None:
        self._remember("".join(f"{line}\n" for line in lines))
        for line in lines:
            if self._is_full:
                return
            self._lines_left -= 1
            self._text_left -= len(line)
            self._log.log(level, "%s", line)

    def _remember(self, text: str) -> None:
        self._tail = (self._tail + text)[-TAIL - 1 :]

    def _close(self) -> None:
        self.hand_over()
        for listener in self._listeners:
            listener.cancel()
        for transport in self._transports:
            transport.close()


class LineDecoder:
    """Text out of bytes, as they come."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""
        self._cut = 0  # how many characters of the line that has begun are not kept

    def feed(self, heard: bytes) -> list[str]:
        """The lines that have come to their end."""
        *ended, begun = self._decoder.decode(heard).split("\n")
        lines = [self._ended(text) for text in ended]
        self._grow(begun)
        return lines

    def end(self) -> list[str]:
        """What is left without an end."""
        self._grow(self._decoder.decode(b"", final=True))
        return [self._ended("")] if self._begun else []

    def _grow(self, text: str) -> None:
        room = LONGEST_LINE - len(self._begun)
        self._begun += text[:room]
        self._cut += max(0, len(text) - room)

    def _ended(self, text: str) -> str:
        self._grow(text)
        # A terminal shows what stands behind the last carriage return: the end of a progress bar.
        line = self._begun.rstrip("\r").rpartition("\r")[2]
        more = f"… ({self._cut:,} characters more)" if self._cut else ""
        self._begun, self._cut = "", 0
        return line + more
