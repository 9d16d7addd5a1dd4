"""The database that a command works on, and the exit codes of errors.

The main module imports this one, so the application is imported inside of functions: ``duly
--help`` does not load asyncio.
"""

import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from duly.cli.output import say
from duly.errors import DulyError, InvalidValue, NotFound, StoreUnavailable

if TYPE_CHECKING:
    from duly.app import Store
    from duly.settings import Settings

T = TypeVar("T")

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
    from duly.cli.find_app import address_at_hand

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
