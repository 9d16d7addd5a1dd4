"""``duly doctor``: one line per check of the database and its surroundings, with fixes."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from duly.cli.formats import is_coloured
from duly.cli.store import NEEDS_YOU, name_store, output_option, run, store_option
from duly.doctor import Finding, examine
from duly.policy.redaction import json_text, one_line

MARKS: Final = {"ok": "✓", "warning": "▲", "problem": "✕"}
PLAIN_MARKS: Final = {"ok": "+", "warning": "!", "problem": "x"}
COLOURS: Final = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command("doctor")
@store_option
@output_option
def doctor(store: str, output: str) -> None:
    """Check the database, its surroundings and the workers, and suggest fixes.

    \b
      duly doctor
      duly doctor --store postgresql://host/name
      duly doctor -o json

    \b
    SQLite       version, file system, free disk space, write access
    PostgreSQL   version, durable commits, free connections, write access, LISTEN/NOTIFY through
                 connection poolers, transactions that keep vacuum from working
    both         migrations, clocks, time zone data of the nodes, partitions, overdue runs, stuck
                 schedules, tasks without a worker, dead workers, alerts that cannot be sent

    ✓ OK, ▲ warning, ✕ error. Nothing is created or changed.

    \b
    Exit codes: 0 no errors, 1 errors found, 5 the database cannot be reached.
    """
    name_store(store)
    found = run(examine(store))
    if output == "json":
        click.echo(json_text(_plain(found)))
    else:
        click.echo("\n".join(_lines(found)))
        click.echo(_summary(found), err=True)
    if any(finding.level == "problem" for finding in found):
        raise SystemExit(NEEDS_YOU)


def _lines(found: Sequence[Finding]) -> Iterator[str]:
    marks = MARKS if _can_print("".join(MARKS.values())) else PLAIN_MARKS
    width = max(len(finding.check) for finding in found)
    for finding in found:
        mark = marks[finding.level]
        shown = click.style(mark, fg=COLOURS[finding.level]) if is_coloured() else mark
        yield f"{shown} {finding.check.ljust(width)}  {_encodable(finding.said)}"
        if finding.fix:
            yield f"  {' ' * width}  fix: {_encodable(finding.fix)}"


def _summary(found: Sequence[Finding]) -> str:
    problems = sum(finding.level == "problem" for finding in found)
    warnings = sum(finding.level == "warning" for finding in found)
    if not problems and not warnings:
        return f"{len(found)} checks, all OK"
    counts = f"{problems} error{'s' * (problems != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    return f"{len(found)} checks: {counts}"


def _plain(found: Sequence[Finding]) -> dict[str, object]:
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


def _encodable(text: str) -> str:
    line = one_line(text)
    return line if _can_print(line) else line.encode("ascii", "replace").decode()


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
