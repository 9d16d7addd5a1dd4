"""What is written to: it may not know all letters, be full, be closed, or listen no more."""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from click import echo

NOT_WRITTEN = 1
# What a place that is written to says, and nothing else that we do.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def open_streams() -> Iterator[None]:
    """Write what can be written; whoever has seen enough, as ``head`` has, is not told of it."""
    _make_lenient()
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.EPIPE, *_FULL):
            raise
        _give_up()
        if error.errno != errno.EPIPE:
            echo(f"Error: the output cannot be written: {error.strerror}", err=True)
        raise SystemExit(NOT_WRITTEN) from None


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
    echo(text, err=True)
