"""``duly db``: migrate and check the tables."""

import click

from duly.app import StoreReport, check_store, migrate_store
from duly.cli.store import NEEDS_YOU, name_store, run, store_option


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
