"""How the command speaks: tables that can be read and grepped, errors that point at the place."""

import errno
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import IO, Any, TextIO

import click
from click import echo

from duly.errors import RuleError, ZoneMissing
from duly.policy.printable import one_line, printable
from duly.settings.loading import machine_zone


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart, nothing at the end of a line."""
    return "\n".join(lined_up([headings, *rows]))


def lined_up(rows: Sequence[Sequence[str]]) -> list[str]:
    """The same without headings; a column in which nothing stands takes no room."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True) if wide).rstrip()
        for row in rows
    ]


def roughly(length: timedelta) -> str:
    """A length of time in its two largest units: ``3 h 12 min``."""
    seconds = round(length.total_seconds())
    units = (("y", 31_557_600), ("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for (unit, size), (next_unit, next_size) in pairwise(units):
        if seconds >= size:
            count, rest = divmod(seconds, size)
            smaller = rest // next_size
            return f"{count} {unit} {smaller} {next_unit}" if smaller else f"{count} {unit}"
    return f"{seconds} s"


class RuleRefused(click.ClickException):
    """A rule that was not understood: the reason, and an arrow to the place."""

    exit_code = 2

    def __init__(self, error: RuleError, rule: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.rule = rule

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"Error: {self.message}", err=True, file=file)
        position = self.error.position
        if position is not None and self.error.text == self.rule and self.rule.isprintable():
            click.echo(f"\n    {self.rule}\n    {' ' * position}^", err=True, file=file)
        behind = self.rule[position:]
        fits = not behind or behind[0] in " )"
        if isinstance(self.error, ZoneMissing) and fits and (zone := machine_zone()):
            whole = f"{self.rule[:position]} {zone}{behind}"
            click.echo(f'\nThis machine is in {zone}: "{whole}"', err=True, file=file)
        for note in getattr(self.error, "__notes__", ()):
            click.echo(f"\n{note}", err=True, file=file)


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
