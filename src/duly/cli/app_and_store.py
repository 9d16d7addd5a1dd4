"""The app and the database that a command works on, and the exit codes of errors.

The app is named, configured, or tasks.py here. The main module imports this one, so the application
is imported inside of functions: ``duly --help`` does not load asyncio.
"""

import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from duly.cli.output import say
from duly.errors import DulyError, InvalidValue, NotFound, StoreUnavailable

if TYPE_CHECKING:
    from duly.app import Store
    from duly.registry.registry import Registry
    from duly.settings import Settings

T = TypeVar("T")

MOST_SCANNED = 2_000
TASKS = "tasks.py"  # the default app
_OURS = str(Path(__file__).parents[1]) + os.sep
NEEDS_YOU, USAGE, MISSING, UNREACHABLE = 1, 2, 3, 5


def settled(**flags: object) -> "Settings":
    """Load the settings: options first, then DULY_…, then duly.toml, then the defaults."""
    from duly.settings import load

    try:
        return load(flags, os.environ, Path.cwd())
    except DulyError as error:
        refuse(error)


def _chosen(context: click.Context, _option: click.Parameter, value: str | None) -> str:
    settings = settled(url=value, app=context.params.get("app"))
    return settings.url if context.resilient_parsing else store_of(settings)


def store_of(settings: "Settings", *, hint: bool = True) -> str:
    """Return the configured database; else that of the app that ``duly up`` would run here."""
    if settings.origin("url") != "default":
        return settings.url
    return address_at_hand(settings, hint=hint)


store_option: Final = click.option(
    "--store",
    callback=_chosen,
    metavar="URL",
    help="Database: a SQLite file or postgresql://…; or https://… of a remote duly server. "
    "Default: DULY_URL, url in duly.toml, the database of the app here, or duly.db.",
)
output_option: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format; json is for programs.",
)


def name_store(store: str) -> None:
    """Print on stderr which database, or remote server, the command works on."""
    try:
        click.echo(store_line(store), err=True)
    except DulyError as error:
        raise click.BadParameter(str(error), param_hint="--store") from None


def store_line(url: str) -> str:
    """Return ``database: /srv/duly.db``, or ``server: https://…``."""
    from duly.app import is_remote, place

    return f"{'server' if is_remote(url) else 'database'}: {place(url)}"


def ask(url: str, question: "Callable[[Store], Awaitable[T]]", *, make: bool = False) -> T:
    """Open the store, run ``question`` on it as the user who typed the command, and close it.

    ``make``: create a SQLite file that does not exist, as ``duly up`` would.
    """
    from duly.app import open_store
    from duly.app.access import commanded
    from duly.connection import open_or_make_store

    async def asked() -> T:
        store = await (open_or_make_store(url) if make else open_store(url))
        try:
            return await question(commanded(store))
        finally:
            await store.close()

    name_store(url)
    return run(asked())


def run(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run(work)


def refuse(error: DulyError) -> NoReturn:
    """Print the error and exit with its code."""
    say(f"Error: {error}", level="error")
    raise SystemExit(_exit_code(error)) from None


def _exit_code(error: DulyError) -> int:
    match error:
        case StoreUnavailable():
            return UNREACHABLE
        case InvalidValue():
            return USAGE
        case NotFound():
            return MISSING
        case _:
            return NEEDS_YOU


def app_of(settings: "Settings", command: str) -> str:
    """Return the app's name; ``command`` is shown in the error if none is found."""
    return settings.app or _default_app(command)


def has_app(settings: "Settings") -> bool:
    """Return whether an app is configured, or there is a tasks.py here."""
    return settings.app is not None or Path(TASKS).is_file()


def address_at_hand(settings: "Settings", *, hint: bool) -> str:
    """Return the database of the app that ``duly up`` would run here, else the configured one."""
    from duly.app import address
    from duly.registry.app_loading import find

    if not has_app(settings):
        if hint and not Path(settings.url).exists() and (likely := _likely_app()):
            click.echo(
                f"note: {likely} creates a Duly(); to use its database, give --store, or set "
                f"DULY_APP={likely}",
                err=True,
            )
        return settings.url
    target = app_of(settings, "up")
    try:
        _load(target, settings)
        return str(getattr(find(target), "url", None) or address(settings.url))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the application does
        click.echo(
            f"note: {target} cannot be imported ({type(error).__name__}: {error}), so its database "
            f"is not known; using {settings.url}. Give --store, or set DULY_URL",
            err=True,
        )
        return settings.url


def declares(settings: "Settings", schedule: str) -> str | None:
    """Return the app that ``duly up`` would run here if its code declares the schedule."""
    from duly.registry.app_loading import find

    if not has_app(settings):
        return None
    target = app_of(settings, "up")
    try:
        _load(target, settings)
        names = {found.name for found in getattr(find(target), "declarations", ())}
    except (Exception, SystemExit):  # noqa: BLE001 - whatever the application does
        return None
    return target if schedule in names else None


def imported(target: str, settings: "Settings") -> "Registry":
    """Import the app and return its tasks; on an error, show the author's line and exit."""
    try:
        return _load(target, settings)
    except DulyError as error:
        line = _author_line(error)
        if line is None:
            raise
        say(f"Error: {line}: {error}", level="error")
        raise SystemExit(click.UsageError.exit_code) from None
    except Exception as error:  # noqa: BLE001 - whatever the application does when imported
        raise SystemExit(_show_traceback(target, error)) from None


def _load(target: str, settings: "Settings") -> "Registry":
    from duly.registry.app_loading import load

    if settings.file is not None and str(settings.folder) not in sys.path:
        sys.path.insert(0, str(settings.folder))
    return load(target)


def _author_line(error: DulyError) -> str | None:
    """Return the app's line that raised, as ``tasks.py:12``; None if it was not the app's."""
    steps = traceback.extract_tb(error.__traceback__)
    imports = [number for number, step in enumerate(steps) if "importlib" in step.filename]
    inside = steps[imports[-1] + 1 :] if imports else []
    theirs = [*takewhile(lambda step: not _is_foreign(step.filename), inside)]
    return f"{os.path.relpath(theirs[-1].filename)}:{theirs[-1].lineno}" if theirs else None


def _show_traceback(target: str, error: Exception) -> int:
    """Print the traceback without the frames of duly and of the import system."""
    step = error.__traceback__
    while step is not None and _is_foreign(step.tb_frame.f_code.co_filename):
        step = step.tb_next
    said = "".join(traceback.format_exception(error.with_traceback(step), chain=False))
    say(f"Error: {target} cannot be imported:\n{said.rstrip()}", level="error")
    return click.ClickException.exit_code


def _is_foreign(file: str) -> bool:
    """Return whether a frame belongs to the import system or to duly, not to the app."""
    return "importlib" in file or file.startswith(_OURS)


def _default_app(command: str) -> str:
    if Path(TASKS).is_file():
        return TASKS
    found = _likely_app()
    if found:
        raise InvalidValue(f"no app named. {found} creates a Duly(): try  duly {command} {found}")
    raise NotFound(
        f"no app named, and there is no tasks.py here: duly {command} shop.tasks, or set DULY_APP"
    )


def _likely_app() -> str | None:
    """Return a file here whose text creates a Duly(); nothing is imported."""
    for count, path in enumerate(sorted(Path().glob("*.py")) + sorted(Path().glob("*/*.py"))):
        if count >= MOST_SCANNED:
            return None
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        if "= Duly(" in text:
            return str(path)
    return None
