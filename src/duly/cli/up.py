"""``duly up`` and ``duly scheduler``: an app in production, whole or only its clock."""

from typing import Any

import click

from duly.cli.serving import (
    app_argument,
    default_app,
    serve_app,
    serving_options,
    working_options,
)
from duly.cli.store import refuse
from duly.errors import DulyError


@click.command("up")
@app_argument
@serving_options
@working_options
def up(app: str | None, **words: Any) -> None:
    """Fire the schedules of APP, and run its jobs, until told to stop.

    What its code declares by @duly.schedule is written into the store first: the newest set that
    any node holds counts, what people have edited stays, and what is no longer declared is paused.
    Start it on as many machines as you like.

    \b
      duly up                                tasks.py here
      duly up shop.tasks --queues mail,default --concurrency 50
      duly up shop.tasks --allow shell,http  with duly's own tasks

    \b
    Exit codes: 0 it was told to stop, 1 something needs you, 2 something in the command line is
    wrong, 3 there is no such app, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    try:
        serve_app(app or default_app("up"), worker=True, scheduler=True, **words)
    except DulyError as error:
        refuse(error)


@click.command("scheduler")
@app_argument
@serving_options
def scheduler(app: str | None, **words: Any) -> None:
    """Fire the schedules of APP, and run nothing: workers do, elsewhere.

    \b
      duly scheduler shop.tasks
      duly worker shop.tasks --processes 4
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    try:
        serve_app(app or default_app("scheduler"), worker=False, scheduler=True, **words)
    except DulyError as error:
        refuse(error)
