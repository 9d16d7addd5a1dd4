"""What is written to: it may not know all letters, be full, be closed, or listen no more.

Whatever a command prints, by whichever way, goes through one sanitiser: titles, errors and the like
are others' words. Only commands that run tasks in their own process leave the streams as they are,
because those write to them too; what such a command says of its own is sanitised where it is said.
"""

import errno
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from click import echo

from duly.policy.printable import printable

NOT_WRITTEN = 1
_COLOUR = re.compile(r"(\x1b\[(?:0|1|2|3[1-6])m)")  # one group: split() keeps them
# What a place that is written to says, and nothing else that we do.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def open_streams(*, shared: bool = False) -> Iterator[None]:
    """Write what can be written; whoever has seen enough, as ``head`` has, is not told of it.

    ``shared``: tasks write to the same streams.
    """
    _make_lenient()
    before = sys.stdout, sys.stderr
    if not shared:
        sys.stdout, sys.stderr = map(_Sanitised, before)
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.EPIPE, *_FULL):
            raise
        _give_up()
        if error.errno != errno.EPIPE:
            echo(f"Error: the output cannot be written: {error.strerror}", err=True)
        raise SystemExit(NOT_WRITTEN) from None
    finally:
        sys.stdout, sys.stderr = before


class _Sanitised:
    """A stream that is written text only, beside the colours that tables have.

    It has no ``buffer``: nobody finds a way around it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, said: str | bytes) -> int:
        # click writes a completion script as bytes.
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        self._stream.write(text if text.isprintable() else _harmless(text))
        return len(said)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def command(self, text: str) -> None:
        """Write a command to the terminal, of our own."""
        self._stream.write(text)
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def _harmless(text: str) -> str:
    """Only the colours that we paint with are left of commands to a terminal."""
    pieces = _COLOUR.split(text)
    return "".join(piece if at % 2 else printable(piece) for at, piece in enumerate(pieces))


def command(text: str, *, err: bool = False) -> None:
    """Send a command to the terminal: to clear it, to write a line anew."""
    stream = sys.stderr if err else sys.stdout
    if isinstance(stream, _Sanitised):
        stream.command(text)
    else:
        echo(text, nl=False, err=err)


def _make_lenient() -> None:
    """A letter that the terminal does not know is a question mark, and no end of the command."""
    if sys.stdout is None:  # closed by whoever started us: click writes nothing then, but we look
        sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _give_up() -> None:
    """What is left in the buffer is written when Python ends: then there must be a place for it."""
    try:
        place = sys.stdout.fileno()
    except (OSError, ValueError):  # none of the system's
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, place)
    os.close(nowhere)


def say(text: str) -> None:
    """Beside the output: what a program that reads it must not see."""
    echo(printable(text), err=True)
