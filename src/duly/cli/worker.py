"""``duly worker``: one or several processes that run jobs."""

import asyncio
import signal
import sys
from typing import Any

import click

from duly.app import Supervisor
from duly.cli.find_app import app_of
from duly.cli.options import (
    WholeNumber,
    app_argument,
    as_arguments,
    serving_options,
    setting_option,
    split_settings,
    working_options,
)
from duly.cli.output import say
from duly.cli.serving import begin, serve_app
from duly.cli.store import run, settled
from duly.runtime.console import event_printer
from duly.runtime.running import notified, notify
from duly.settings import Settings


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
