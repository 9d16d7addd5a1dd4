"""``duly worker``: a process that runs jobs, or several of them."""

import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from duly.cli.find_app import app_of
from duly.cli.options import (
    WholeNumber,
    app_argument,
    parted,
    serving_options,
    typed,
    working_options,
)
from duly.cli.output import say
from duly.cli.serving import event_printer, obey, serve_app
from duly.cli.store import refuse, run, settled
from duly.errors import DulyError

if TYPE_CHECKING:
    from duly.app import Supervisor
    from duly.settings import Settings


@click.command("worker")
@app_argument
@serving_options
@working_options
@click.option(
    "--processes", metavar="N", help="Workers to start; one that dies is replaced; else 1."
)
@click.option("--burst", is_flag=True, help="End when no job is ready.")
@click.option("--max-jobs", type=WholeNumber(1), metavar="N", help="End after so many jobs.")
@click.option("--max-idle", metavar="TIME", help="End after so long without any.")
@click.option(
    "--scheduler/--no-scheduler", default=False, show_default=True, help="Fire schedules, too."
)
def worker(app: str | None, *, scheduler: bool, **words: Any) -> None:
    """Run jobs of APP until told to stop.

    APP is a file or a module, and the app in it if there are several: tasks.py, shop.tasks,
    shop.tasks:duly. Without it, DULY_APP, or tasks.py here.

    \b
      duly worker                                    tasks.py, queue "default", 10 jobs at once
      duly worker shop.tasks --queues mail,default --concurrency 50
      duly worker shop.tasks --processes 4           four of them, each with 10 jobs at once
      duly worker shop.tasks --resources gpu=1       runs tasks with needs={"gpu": 1}
      duly worker shop.tasks --burst                 what is ready now, and no more

    SIGTERM or Ctrl-C: nothing more is begun, and what runs comes to its end. A second time, or
    when --stop-timeout is over: what runs is stopped, and another worker will run it again. Both
    exit with 0.

    \b
    Exit codes: 0 it ended as it should, 1 something needs you, 2 something in the command line is
    wrong, 3 there is no such app, 5 the store cannot be reached at the start, 75 jobs could not be
    stopped after the lease was lost, and the process could not be replaced.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    try:
        settings = settled(app=app, **parted(words)[0])
        if settings.processes > 1:
            _supervise(app_of(settings, "worker"), settings, {**words, "scheduler": scheduler})
        else:
            serve_app(app, words, command="worker", worker=True, scheduler=scheduler)
    except DulyError as error:
        refuse(error)


def _supervise(target: str, settings: "Settings", words: dict[str, Any]) -> None:
    from duly.app import Supervisor

    obey(settings)
    numbers = range(1, settings.processes + 1)
    commands = [_command(target, number, words) for number in numbers]
    supervisor = Supervisor(commands, emit=event_printer(settings))
    say(f"{settings.processes} workers of {target}")
    code = run(_watched(supervisor))
    if code:
        raise SystemExit(code)


async def _watched(supervisor: "Supervisor") -> int:
    import asyncio

    loop, heard = asyncio.get_running_loop(), 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        say("stopping now" if heard > 1 else "stopping; again to stop now")
        supervisor.stop(signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, hear)
    return await supervisor.run()


def _command(target: str, number: int, words: dict[str, Any]) -> list[str]:
    """The command of one process: what was asked of us, but for how many there are to be."""
    name = f"{words['name']}-{number}" if words["name"] else ""
    said = typed({**words, "name": name, "processes": 1})
    return [sys.executable, "-m", "duly", "worker", target, *said]
