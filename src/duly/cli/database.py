"""``duly db`` and ``duly doctor``: migrate the tables; check the database and its surroundings."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from duly.app import StoreReport, check_store, migrate_store
from duly.cli.app_and_store import NEEDS_YOU, name_store, output_option, run, store_option
from duly.cli.formats import is_coloured, view_json
from duly.doctor import Doctor, Finding, examine
from duly.policy.redaction import one_line


@click.group()
def db() -> None:
    """Create, migrate and check the tables of duly.

    \b
    Exit codes: 0 success, 1 a problem was found, 2 invalid usage, 5 the database cannot be
    reached.
    """


@db.command("migrate")
@store_option
def migrate_command(store: str) -> None:
    """Create the tables, or migrate them to this version of duly.

    A SQLite file that does not exist is created. Nodes may keep running meanwhile, and several
    migrations at the same time do the work once. There are no down migrations.
    """
    name_store(store)
    done = run(
        migrate_store(store, report=lambda m: click.echo(f"applied  {m.number:04} {m.name}"))
    )
    click.echo(f"{len(done)} applied" if done else "nothing to do")


@db.command("check")
@store_option
def check_command(store: str) -> None:
    """Check that the tables fit this version of duly and that no work is overdue.

    Exits with 1 if there is a problem, 5 if the database cannot be reached. Changes nothing.
    """
    name_store(store)
    report = run(check_store(store))
    for line in _lines(report):
        click.echo(line)
    if report.problem:
        click.echo(f"Error: {report.problem}", err=True)
        raise SystemExit(NEEDS_YOU)


def _lines(report: StoreReport) -> list[str]:
    schema = report.schema
    there, known = max(schema.applied, default=0), max(schema.expected)
    lines = [
        f"schema   {there} of {known}"
        if there <= known
        else f"schema   {there}, newer than {known}"
    ]
    if schema.note:
        lines.append(f"note     {schema.note}")
    progress = report.progress
    if progress is not None:
        unfired = progress.unfired_for.total_seconds()
        lines += [
            f"unfired  {f'for {unfired:.1f} s' if unfired else 'nothing'}",
            f"ready    {progress.ready} jobs",
            f"running  {progress.running} jobs",
        ]
    return lines


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
        click.echo(view_json(Doctor.of(found)))
    else:
        click.echo("\n".join(_finding_lines(found)))
        click.echo(_summary(found), err=True)
    if any(finding.level == "problem" for finding in found):
        raise SystemExit(NEEDS_YOU)


def _finding_lines(found: Sequence[Finding]) -> Iterator[str]:
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


def _encodable(text: str) -> str:
    line = one_line(text)
    return line if _can_print(line) else line.encode("ascii", "replace").decode()


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
