"""``duly up`` and ``duly scheduler``: run an app in production, or only its scheduler."""

from collections.abc import Mapping
from typing import Any

import click

from duly.cli.find_app import has_app
from duly.cli.options import dashboard_options, serving_options, split_settings, working_options
from duly.cli.serving import serve_app, serve_file
from duly.cli.store import settled


@click.command("up")
@click.argument("app", required=False, metavar="[APP | FILE]")
@serving_options
@working_options
@dashboard_options
@click.option(
    "--migrate", is_flag=True, help="Create or migrate the tables of a PostgreSQL database first."
)
def up(app: str | None, **words: Any) -> None:
    """Fire the schedules of APP, run its jobs and serve the dashboard, until told to stop.

    Schedules that the code declares with @duly.schedule are written to the database first. The
    newest declared set of all nodes wins, edits by people stay, and schedules that are no longer
    declared are paused. Run it on as many machines as you like.

    A FILE of schedules is applied first, as by duly apply without --prune or --take-back. Entries
    with shell, command or http need no Python.

    \b
      duly up                                tasks.py here
      duly up shop.tasks --queues mail,default --concurrency 50
      duly up shop.tasks --allow shell,http  with the built-in tasks
      duly up schedules.toml --allow shell   a file, and no Python

    If the database goes away, the process waits and continues when it is back. If jobs cannot be
    stopped after the lease is lost, the process restarts itself and reports it.

    \b
    Exit codes: 0 stopped, 1 failed, 2 invalid usage, 3 no such app or file, 5 the database cannot
    be reached at the start, 75 jobs could not be stopped after the lease was lost and the process
    could not restart itself.
    """
    _serve(app, words, command="up", worker=True)


@click.command("scheduler")
@click.argument("app", required=False, metavar="[APP | FILE]")
@serving_options
def scheduler(app: str | None, **words: Any) -> None:
    """Fire the schedules of APP or FILE; workers elsewhere run the jobs.

    \b
      duly scheduler shop.tasks
      duly worker shop.tasks --processes 4

    \b
    Exit codes: as for duly up.
    """
    _serve(app, words, command="scheduler", worker=False)


def _serve(app: str | None, words: Mapping[str, Any], *, command: str, worker: bool) -> None:
    file = app if app is not None and app.endswith(".toml") else None
    if app is None:
        file = _configured_file(words)
    if file is not None:
        serve_file(file, words, worker=worker)
    else:
        serve_app(app, words, command=command, worker=worker, scheduler=True)


def _configured_file(words: Mapping[str, Any]) -> str | None:
    """Return the configured file of schedules, if there is no app."""
    settings = settled(**split_settings(words)[0])
    return None if has_app(settings) else settings.schedules_file
