"""How the command speaks: tables that can be read and grepped, errors that point at the place."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import IO, Any

import click

from duly.errors import RuleError, ZoneMissing
from duly.policy.printable import one_line
from duly.settings.machine import machine_zone


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
