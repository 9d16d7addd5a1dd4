"""``duly plan``, ``duly apply``, ``duly export``: schedules declared in a file."""

import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from duly.app import Store, connect, is_postgres, is_remote, migrate_tables, place
from duly.app.access import commanded
from duly.app.schedule_files import FileDraft, draft, exported
from duly.app.schedule_files import apply as applied
from duly.cli.app_and_store import (
    app_of,
    ask,
    has_app,
    imported,
    output_option,
    run,
    settled,
    store_option,
)
from duly.cli.formats import view_json
from duly.cli.inputs import BoundedReader
from duly.cli.options import app_option
from duly.cli.output import say
from duly.connection import open_or_make_store
from duly.errors import DulyError, InvalidValue, NotFound
from duly.files import ScheduleFile
from duly.files.entry_plans import call_of, has_secrets
from duly.files.file_text import read, write
from duly.files.schedule_file import table
from duly.model.outcome import SEND
from duly.policy.redaction import some
from duly.registry.registry import Registry

DRIFT: Final = 6
FILE: Final = "schedules.toml"
MOST_NAMED: Final = 5


def file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the file; the command gets its draft, and the store."""

    @click.argument(
        "file",
        required=False,
        metavar="[FILE]",
        callback=lambda _context, _option, value: value or settled().schedules_file or FILE,
    )
    @click.option(
        "--name", metavar="NAME", help="Name to record the file under; by default its own."
    )
    @click.option("--prune", is_flag=True, help="Remove entries that left the file.")
    @click.option("--take-back", is_flag=True, help="Overwrite changes that were made elsewhere.")
    @store_option
    @wraps(command)
    def drafted(
        *, file: str, name: str | None, prune: bool, take_back: bool, store: str, **words: Any
    ) -> None:
        sheet, known = read_sheet(file), name or Path(file).name

        async def made(there: Store) -> FileDraft:
            return await draft(there, sheet, file=known, prune=prune, take_back=take_back)

        found = run(_on_an_empty_store(store, made)) if _is_missing(store) else ask(store, made)
        command(found, store=store, **words)

    return drafted


@click.command("plan")
@file_options
@app_option
@output_option
def plan(made: FileDraft, *, store: str, app: str | None, output: str) -> None:  # noqa: ARG001
    """Show what applying FILE would change, and where the database has drifted from it.

    \b
      duly plan
      duly plan nightly.toml --prune
      duly plan --app shop.tasks             if FILE says task = …
      duly plan -o json

    \b
      + added   ~ changed   - removed   ! drift: set by a person, and it stays
      ? no longer in the file, and kept

    If there is an app, tasks and their arguments are checked as by apply; otherwise a note says
    that they were not. A SQLite file that does not exist counts as empty and is not created.

    \b
    Exit codes: 0 no drift, 1 the app cannot be imported, 2 the file, the app or the command line
    is wrong, 3 no such file, 5 the database cannot be reached, 6 there is drift.
    """
    if output == "json":
        click.echo(view_json(made.as_view))
    else:
        _show(made)
    _check(made, app)
    _exit_by(made)


@click.command("apply")
@file_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@app_option
def apply(made: FileDraft, *, store: str, yes: bool, app: str | None) -> None:
    """Make the changes that `duly plan` shows: all of them, or none.

    Edits that people made since the file was applied last stay, unless --take-back is given.
    Entries that are no longer in the file stay, unless --prune is given.

    \b
      duly apply
      duly apply nightly.toml --prune --yes
      duly apply --app shop.tasks            if FILE says task = …

    \b
    Exit codes: 0 done, 1 the database changed or you answered no, 2 the file or the command line
    is wrong, 3 no such file, 5 the database cannot be reached, 6 drift is left.
    """
    _show(made)
    if not made.is_written:
        _check_targets(made)
        tasks = _tasks(made, app)
        made.steps(tasks)  # raise errors before asking for confirmation
        _agree(made, yes=yes)
        _apply(store, made, tasks)
    _exit_by(made)


@click.command("export")
@store_option
def export(store: str) -> None:
    """Print queues, limits and the schedules that code does not declare, as a file.

    \b
      duly export > schedules.toml

    Keep the file private: arguments, headers and environments are not hidden in it.

    \b
    Exit codes: 0 success, 5 the database cannot be reached.
    """
    sheet, notes = ask(store, exported)
    for note in notes:
        say(f"note: {note}")
    kept = [entry.name for entry in sheet.schedules.values() if has_secrets(entry)]
    if kept:
        shown = some(kept, MOST_NAMED)
        say(f"note: this file contains values that other commands hide ({shown}): keep it private")
    click.echo(write(sheet), nl=False)


def _is_missing(store: str) -> bool:
    """Return whether the SQLite file does not exist; a plan must not create it."""
    return not is_postgres(store) and not is_remote(store) and not Path(place(store)).exists()


async def _on_an_empty_store(
    url: str, question: Callable[[Store], Awaitable[FileDraft]]
) -> FileDraft:
    say(f"database: {place(url)} (does not exist yet)")
    store = connect(":memory:")
    await store.open()
    try:
        await migrate_tables(store)
        return await question(store)
    finally:
        await store.close()


def _show(made: FileDraft) -> None:
    for line in made.plan.lines():
        click.echo(line)
    summary = made.plan.summary()
    idle = made.plan.is_empty and not made.plan.has_drift and summary != "nothing to do"
    click.echo(f"nothing to do: {summary}" if idle else summary)


def _exit_by(made: FileDraft) -> None:
    if made.plan.has_drift:
        raise SystemExit(DRIFT)


def _check(made: FileDraft, app: str | None) -> None:
    """Exit with the error that applying would raise; print a note if that needs an unknown app."""
    _check_targets(made)
    needing = made.needing_an_app()
    if needing and app is None and not has_app(settled()):
        names = some(needing, MOST_NAMED)
        say(f"note: no app is named, so the tasks of {names} were not checked: use --app APP")
        return
    made.steps(_tasks(made, app))


def _check_targets(made: FileDraft) -> None:
    """Refuse hand-offs to targets that the settings do not have; a note if they have none."""
    calls = {name: call_of(entry) for name, entry in made.sheet.schedules.items()}
    named = {
        name: args["target"]
        for name, (task, args) in calls.items()
        if task == SEND and "target" in args
    }
    known = [target.name for target in settled().targets]
    for name, target in named.items():
        if known and target not in known:
            raise InvalidValue(
                f'{table("schedules", name)} target = "{target}": the settings have no '
                f"[targets.{target}]; there are: {', '.join(sorted(known))}"
            )
    if named and not known:
        said = ", ".join(sorted({str(target) for target in named.values()}))
        say(f"note: the settings here have no [targets], so {said} was not checked")


def _tasks(made: FileDraft, app: str | None) -> Registry | None:
    """Import the app and return its tasks, if an entry of the file needs them; else None."""
    needing = made.needing_an_app()
    if not needing:
        return None
    settings = settled(app=app)
    try:
        target = app_of(settings, "apply --app")
    except DulyError as error:
        entry = made.sheet.schedules[needing[0]]
        raise type(error)(
            f'{table("schedules", entry.name)} task = "{entry.task}": its app says what '
            f"the task takes and how it runs. Add --app APP: {error}"
        ) from None
    return imported(target, settings)


def _agree(made: FileDraft, *, yes: bool) -> None:
    if yes or made.plan.is_empty:
        return
    if sys.stdin.isatty():
        click.confirm("apply this?", err=True, abort=True)
        return
    removed = made.plan.counts["remove"]
    words = [f"remove {removed}"] if removed else []
    words += [f"take back {made.taken_back}"] if made.taken_back else []
    if words:
        raise click.UsageError(f"this would {' and '.join(words)}: add --yes")


def _apply(url: str, made: FileDraft, tasks: Registry | None) -> None:
    async def asked() -> None:
        store: Store = await open_or_make_store(url)
        try:
            await applied(commanded(store), made, tasks=tasks)
        finally:
            await store.close()

    run(asked())
    if not made.plan.is_empty:
        say("applied")


def read_sheet(file: str) -> ScheduleFile:
    """Parse the file; the configured time zone is the default if neither rule nor file names one.

    The zone becomes part of each entry, so it is applied, stored and compared with the entry.
    """
    try:
        text = BoundedReader().file(Path(file)).decode("utf-8")
    except NotFound as error:
        raise NotFound(
            f"{error}: name another, or create one with duly import or duly export"
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from None
    return read(text, place=file, zone=settled().zone)
