"""``duly doctor``: what is around the store, one line a check, and below each trouble its fix."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from duly.cli.formats import is_coloured
from duly.cli.store import NEEDS_YOU, name_store, output_option, run, store_option
from duly.policy.printable import json_text, one_line

if TYPE_CHECKING:
    from duly.doctor import Finding

MARKS: Final = {"ok": "✓", "warning": "▲", "problem": "✕"}
PLAIN_MARKS: Final = {"ok": "+", "warning": "!", "problem": "x"}
COLOURS: Final = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command("doctor")
@store_option
@output_option
def doctor(store: str, output: str) -> None:
    """Look at the store and at what is around it, and say what helps.

    \b
      duly doctor
      duly doctor --store postgresql://host/name
      duly doctor -o json

    \b
    SQLite       its version, the file system, the disk, whether it can be written
    PostgreSQL   its version, whether commits reach the disk, free connections, whether it can be
                 written, whether LISTEN works through what is between
    both         migrations, clocks, zone data of the nodes, partitions, moments that nobody fired,
                 schedules that stand still, tasks that no worker knows, workers that are gone

    A mark ✓ is well, ▲ is worth knowing, ✕ needs you. Nothing is made or changed.

    \b
    Exit codes: 0 nothing needs you, 1 something does, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    from duly.doctor import examine

    name_store(store)
    found = run(examine(store))
    if output == "json":
        click.echo(json_text(_plain(found)))
    else:
        click.echo("\n".join(_lines(found)))
        click.echo(_summary(found), err=True)
    if any(finding.level == "problem" for finding in found):
        raise SystemExit(NEEDS_YOU)


def _lines(found: "Sequence[Finding]") -> Iterator[str]:
    marks = MARKS if _can_say("".join(MARKS.values())) else PLAIN_MARKS
    width = max(len(finding.check) for finding in found)
    for finding in found:
        mark = marks[finding.level]
        shown = click.style(mark, fg=COLOURS[finding.level]) if is_coloured() else mark
        yield f"{shown} {finding.check.ljust(width)}  {_sayable(finding.said)}"
        if finding.fix:
            yield f"  {' ' * width}  fix: {_sayable(finding.fix)}"


def _summary(found: "Sequence[Finding]") -> str:
    problems = sum(finding.level == "problem" for finding in found)
    warnings = sum(finding.level == "warning" for finding in found)
    if not problems and not warnings:
        return f"{len(found)} checks, and all is well"
    needs = f"{problems} need{'s' * (problems == 1)} you" if problems else "nothing needs you"
    known = f", {warnings} {'is' if warnings == 1 else 'are'} worth knowing" if warnings else ""
    return f"{len(found)} checks: {needs}{known}"


def _plain(found: "Sequence[Finding]") -> dict[str, object]:
    return {
        "ok": all(finding.level != "problem" for finding in found),
        "findings": [
            {
                "check": finding.check,
                "level": finding.level,
                "said": finding.said,
                "fix": finding.fix or None,
            }
            for finding in found
        ],
    }


def _sayable(text: str) -> str:
    line = one_line(text)
    return line if _can_say(line) else line.encode("ascii", "replace").decode()


def _can_say(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
