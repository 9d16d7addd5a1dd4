"""The store that a command is about, and what it means when something cannot be done there.

The application is imported when a command runs: ``duly --help`` need not wait for asyncio.
"""

import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from duly.errors import DulyError, InvalidValue, NotFound, StoreUnavailable

if TYPE_CHECKING:
    from duly.app import Store
    from duly.settings import Settings

T = TypeVar("T")

NEEDS_YOU, USAGE, MISSING, UNREACHABLE = 1, 2, 3, 5


def settled(**flags: object) -> "Settings":
    """What counts for a command: what was typed, else DULY_…, else duly.toml, else the default."""
    from duly.settings import load

    try:
        return load(flags, os.environ, Path.cwd())
    except DulyError as error:
        refuse(error)


def _meant(context: click.Context, _option: click.Parameter, value: str | None) -> str:
    """The store that was named or configured; else that of the app that ``duly up`` would run."""
    settings = settled(url=value, app=context.params.get("app"))
    return settings.url if context.resilient_parsing else store_of(settings)


def store_of(settings: "Settings", *, hint: bool = True) -> str:
    from duly.cli.find_app import address_at_hand

    if settings.origin("url") != "default":
        return settings.url
    return address_at_hand(settings, hint=hint)


store_option = click.option(
    "--store",
    callback=_meant,
    metavar="URL",
    help="Where duly remembers: a path, sqlite:///path, postgresql://…, or https://… of a duly "
    "elsewhere; else DULY_URL, url in duly.toml, that of the app here, or duly.db.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json is for programs.",
)


def name_store(store: str) -> None:
    """Say once, beside the output, which store this is about."""
    from duly.app import place

    try:
        click.echo(f"store: {place(store)}", err=True)
    except DulyError as error:
        raise click.BadParameter(str(error), param_hint="--store") from None


def ask(url: str, question: "Callable[[Store], Awaitable[T]]", *, make: bool = False) -> T:
    """Open a store, and do something with it in the name of who typed that.

    ``make``: a file of SQLite that is not there is made, as ``duly up`` would.
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
    """Run the work; say what went wrong in one line, with the exit code that means it."""
    import asyncio

    try:
        return asyncio.run(work)
    except DulyError as error:
        refuse(error)


def refuse(error: DulyError) -> NoReturn:
    click.echo(f"Error: {error}", err=True)
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
