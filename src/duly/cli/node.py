"""``duly up``, ``duly worker``, ``duly scheduler``: run the node of an app, in production."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import Any

import click

from duly.app import Supervisor
from duly.cli.app_and_store import app_of, has_app, run, settled
from duly.cli.options import (
    WholeNumber,
    app_argument,
    as_arguments,
    dashboard_options,
    serving_options,
    setting_option,
    split_settings,
    working_options,
)
from duly.cli.output import say
from duly.cli.serving import begin, serve_app, serve_file
from duly.runtime.console import event_printer
from duly.runtime.running import notified, notify
from duly.settings import Settings


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


@click.command("worker")
@app_argument
@serving_options
@working_options
@setting_option("processes", "N")
@click.option("--burst", is_flag=True, help="Exit when no job is ready.")
@click.option("--max-jobs", type=WholeNumber(1), metavar="N", help="Exit after this many jobs.")
@click.option("--max-idle", metavar="TIME", help="Exit after this long without a job.")
@click.option(
    "--scheduler/--no-scheduler", default=False, show_default=True, help="Also fire schedules."
)
def worker(app: str | None, *, scheduler: bool, **words: Any) -> None:
    """Run jobs of APP until told to stop.

    APP is a file, a module, or module:name: tasks.py, shop.tasks, shop.tasks:duly. Default:
    DULY_APP, or tasks.py here.

    \b
      duly worker                                    tasks.py, queue "default", concurrency 10
      duly worker shop.tasks --queues mail,default --concurrency 50
      duly worker shop.tasks --processes 4           four processes, each with concurrency 10
      duly worker shop.tasks --resources gpu=1       runs tasks with needs={"gpu": 1}
      duly worker shop.tasks --burst                 run the jobs that are ready, then exit

    On SIGTERM or Ctrl-C the worker starts no more jobs and lets running jobs finish. On a second
    signal, or after --stop-timeout, it stops running jobs; another worker runs them again. Both
    exit with 0.

    \b
    Exit codes: 0 normal end, 1 failed, 2 invalid usage, 3 no such app, 5 the database cannot be
    reached at the start, 75 jobs could not be stopped after the lease was lost and the process
    could not restart itself.
    """
    settings = settled(app=app, **split_settings(words)[0])
    if settings.processes > 1:
        _supervise(app_of(settings, "worker"), settings, {**words, "scheduler": scheduler})
    else:
        serve_app(app, words, command="worker", worker=True, scheduler=scheduler)


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


def _supervise(target: str, settings: Settings, words: dict[str, Any]) -> None:
    begin(settings)
    numbers = range(1, settings.processes + 1)
    commands = [_command(target, number, words) for number in numbers]
    supervisor = Supervisor(commands, emit=event_printer(settings, say))
    say(f"{settings.processes} workers of {target}")
    code = run(_watched(supervisor))
    if code:
        raise SystemExit(code)


async def _watched(supervisor: Supervisor) -> int:
    loop, heard, started = asyncio.get_running_loop(), 0, asyncio.Event()
    started.set()

    def hear() -> None:
        nonlocal heard
        heard += 1
        notify("STOPPING=1")
        say("stopping now" if heard > 1 else "stopping; send the signal again to stop now")
        supervisor.stop(signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, hear)
    async with notified(started):
        return await supervisor.run()


def _command(target: str, number: int, words: dict[str, Any]) -> list[str]:
    """Return the command line of one of the processes."""
    name = f"{words['name']}-{number}" if words["name"] else ""
    said = as_arguments({**words, "name": name, "processes": 1})
    return [sys.executable, "-m", "duly", "worker", target, *said]
