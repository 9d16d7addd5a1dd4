"""Tables, error messages, and the sanitised streams that every command writes to.

Titles, errors and the like are text of others, so everything a command prints passes one sanitiser
that removes terminal escapes. Commands that run tasks in their own process leave the streams alone,
because tasks write to them too; such a command sanitises each of its own messages.
"""

import errno
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from threading import Event
from typing import IO, Any, TextIO

import click
from click import echo

from duly.errors import RuleError, ZoneMissing
from duly.policy.redaction import one_line, printable
from duly.settings.loading import machine_zone


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns, two spaces apart, without trailing spaces."""
    return "\n".join(lined_up([headings, *rows]))


def lined_up(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as aligned lines; a column without content is left out."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True) if wide).rstrip()
        for row in rows
    ]


def roughly(length: timedelta) -> str:
    """Return a duration in its two largest units: ``3 h 12 min``."""
    seconds = round(length.total_seconds())
    units = (("y", 31_557_600), ("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for (unit, size), (next_unit, next_size) in pairwise(units):
        if seconds >= size:
            count, rest = divmod(seconds, size)
            smaller = rest // next_size
            return f"{count} {unit} {smaller} {next_unit}" if smaller else f"{count} {unit}"
    return f"{seconds} s"


class RuleRefused(click.ClickException):
    """A rule that cannot be parsed: show the reason and a caret under its position."""

    exit_code = 2

    def __init__(self, error: RuleError, rule: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.rule = rule

    def show(self, file: IO[Any] | None = None) -> None:
        echo(f"Error: {self.message}", err=True, file=file)
        position = self.error.position
        if position is not None and self.error.text == self.rule and self.rule.isprintable():
            echo(f"\n    {self.rule}\n    {' ' * position}^", err=True, file=file)
        behind = self.rule[position:]
        fits = not behind or behind[0] in " )"
        if isinstance(self.error, ZoneMissing) and fits and (zone := machine_zone()):
            whole = f"{self.rule[:position]} {zone}{behind}"
            echo(f'\nThis machine is in {zone}: "{whole}"', err=True, file=file)
        for note in getattr(self.error, "__notes__", ()):
            echo(f"\n{note}", err=True, file=file)


NOT_WRITTEN = 1
_COLOUR = re.compile(r"(\x1b\[(?:0|1|2|3[1-6])m)")  # one group: split() keeps them
# Errors that only a write reports.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def open_streams(*, shared: bool = False) -> Iterator[None]:
    """Run a command with lenient, sanitised streams; exit quietly when the reader goes away.

    ``shared``: tasks write to the same streams, which are not wrapped then.
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
        _discard_buffer()
        if error.errno != errno.EPIPE:
            echo(f"Error: the output cannot be written: {error.strerror}", err=True)
        raise SystemExit(NOT_WRITTEN) from None
    finally:
        sys.stdout, sys.stderr = before
        _json_logs.clear()


class _Sanitised:
    """A text stream that removes all control characters but the colours of our tables.

    It has no ``buffer``, so that nothing can bypass it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, said: str | bytes) -> int:
        # click writes a completion script as bytes.
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        self._stream.write(text if text.isprintable() else _without_escapes(text))
        return len(said)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def command(self, text: str) -> None:
        """Write a terminal escape of our own."""
        self._stream.write(text)
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def _without_escapes(text: str) -> str:
    """Remove terminal escapes, except the colours that we use."""
    pieces = _COLOUR.split(text)
    return "".join(piece if at % 2 else printable(piece) for at, piece in enumerate(pieces))


def command(text: str, *, err: bool = False) -> None:
    """Send an escape to the terminal: to clear it, to rewrite a line."""
    stream = sys.stderr if err else sys.stdout
    if isinstance(stream, _Sanitised):
        stream.command(text)
    else:
        echo(text, nl=False, err=err)


def _make_lenient() -> None:
    """Write ``?`` for a character that the stream cannot encode, instead of failing."""
    if sys.stdout is None:  # the parent closed it; click then writes nothing
        sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _discard_buffer() -> None:
    """Point stdout at /dev/null, where Python can flush the rest of the buffer when it exits."""
    try:
        place = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file of the system
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, place)
    os.close(devnull)


_json_logs = Event()


def log_as_json() -> None:
    """Write the messages of this process as JSON lines from now on."""
    _json_logs.set()


def is_confirmed(deed: str) -> bool:
    """Ask whether to do it; without a terminal, refuse. ``deed`` is as "cancel 7 jobs"."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"this would {deed}: add --yes")
    return click.confirm(f"{deed}?", err=True)


def say(text: str, /, **facts: object) -> None:
    """Write a message for people to stderr, which a program that reads stdout does not see."""
    if _json_logs.is_set():
        from duly.runtime.console import json_line

        text = json_line(text, **facts)
    echo(printable(text), err=True)
