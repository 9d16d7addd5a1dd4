"""``duly db``: the tables that everything is remembered in.

The application is imported when a command runs: ``duly --help`` need not wait for asyncio.
"""

from typing import TYPE_CHECKING

import click

from duly.cli.store import NEEDS_YOU, name_store, run, store_option

if TYPE_CHECKING:
    from duly.app import StoreReport


@click.group()
def db() -> None:
    """Make, migrate and check the tables that duly remembers in.

    \b
    Exit codes: 0 ok, 1 something needs you, 2 something in the command line is wrong, 5 the store
    cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are


@db.command("migrate")
@store_option
def migrate_command(store: str) -> None:
    """Bring the tables to what this version of duly works with.

    An SQLite file that is not there is made. Running nodes are not disturbed, and several of these
    at once do the work once. Nothing is ever taken back.
    """
    from duly.app import migrate_store

    name_store(store)
    done = run(
        migrate_store(store, report=lambda m: click.echo(f"applied  {m.number:04} {m.name}"))
    )
    click.echo(f"{len(done)} applied" if done else "nothing to do")


@db.command("check")
@store_option
def check_command(store: str) -> None:
    """Say whether the tables fit this version of duly, and what is due and not done.

    Exits 1 if something needs you, 5 if the store cannot be reached. Makes and changes nothing.
    """
    from duly.app import check_store

    name_store(store)
    report = run(check_store(store))
    for line in _lines(report):
        click.echo(line)
    if report.problem:
        click.echo(f"Error: {report.problem}", err=True)
        raise SystemExit(NEEDS_YOU)


def _lines(report: "StoreReport") -> list[str]:
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
