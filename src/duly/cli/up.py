"""``duly up`` and ``duly scheduler``: an app in production, whole or only its clock."""

from collections.abc import Mapping
from typing import Any

import click

from duly.cli.find_app import has_app
from duly.cli.options import beside_options, parted, serving_options, working_options
from duly.cli.serving import serve_app, serve_file
from duly.cli.store import refuse, settled
from duly.errors import DulyError


@click.command("up")
@click.argument("app", required=False, metavar="[APP | FILE]")
@serving_options
@working_options
@beside_options
@click.option("--migrate", is_flag=True, help="Make or migrate the tables of a PostgreSQL first.")
def up(app: str | None, **words: Any) -> None:
    """Fire the schedules of APP, run its jobs and show the dashboard, until told to stop.

    What its code declares by @duly.schedule is written into the store first: the newest set that
    any node holds counts, what people have edited stays, and what is no longer declared is paused.
    Start it on as many machines as you like.

    A FILE of schedules is applied first, as by duly apply without --prune or --take-back, and then
    run: shell, command and http need no Python.

    \b
      duly up                                tasks.py here
      duly up shop.tasks --queues mail,default --concurrency 50
      duly up shop.tasks --allow shell,http  with duly's own tasks
      duly up schedules.toml --allow shell   a file, and no Python

    A database that goes away while it runs does not end it: it goes on when the database is back.
    If jobs cannot be stopped when the lease is lost, the process replaces itself and says so.

    \b
    Exit codes: 0 it was told to stop, 1 something needs you, 2 something in the command line is
    wrong, 3 there is no such app or file, 5 the store cannot be reached at the start, 75 jobs could
    not be stopped after the lease was lost, and the process could not be replaced.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    try:
        _serve(app, words, command="up", worker=True)
    except DulyError as error:
        refuse(error)


@click.command("scheduler")
@click.argument("app", required=False, metavar="[APP | FILE]")
@serving_options
def scheduler(app: str | None, **words: Any) -> None:
    """Fire the schedules of APP or FILE, and run nothing: workers do, elsewhere.

    \b
      duly scheduler shop.tasks
      duly worker shop.tasks --processes 4

    \b
    Exit codes: as of duly up.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    try:
        _serve(app, words, command="scheduler", worker=False)
    except DulyError as error:
        refuse(error)


def _serve(app: str | None, words: Mapping[str, Any], *, command: str, worker: bool) -> None:
    file = app if app is not None and app.endswith(".toml") else None
    if app is None:
        file = _configured_file(words)
    if file is not None:
        serve_file(file, words, worker=worker)
    else:
        serve_app(app, words, command=command, worker=worker, scheduler=True)


def _configured_file(words: Mapping[str, Any]) -> str | None:
    """The file of schedules, where it is all that there is."""
    settings = settled(**parted(words)[0])
    return None if has_app(settings) else settings.schedules_file
