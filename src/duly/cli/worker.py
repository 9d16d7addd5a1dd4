"""``duly worker``: a process that runs jobs, or several of them."""

import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from duly.cli.serving import (
    app_argument,
    default_app,
    say,
    serve_app,
    serving_options,
    teller,
    typed,
    working_options,
)
from duly.cli.store import refuse, run
from duly.errors import DulyError

if TYPE_CHECKING:
    from duly.app import Supervisor

MOST_PROCESSES = 256


@click.command("worker")
@app_argument
@serving_options
@working_options
@click.option(
    "--processes",
    type=click.IntRange(1, MOST_PROCESSES),
    default=1,
    show_default=True,
    metavar="N",
    help="Workers to start; one that dies is replaced.",
)
@click.option("--burst", is_flag=True, help="End when no job is ready.")
@click.option("--max-jobs", type=click.IntRange(1), metavar="N", help="End after so many jobs.")
@click.option("--max-idle", metavar="TIME", help="End after so long without any.")
@click.option(
    "--scheduler/--no-scheduler", default=False, show_default=True, help="Fire schedules, too."
)
def worker(app: str | None, processes: int, **words: Any) -> None:
    """Run jobs of APP until told to stop.

    APP is a file or a module, and the app in it if there are several: tasks.py, shop.tasks,
    shop.tasks:duly. Without it, DULY_APP, or tasks.py here.

    \b
      duly worker                                    tasks.py, queue "default", 10 jobs at once
      duly worker shop.tasks --queues mail,default --concurrency 50
      duly worker shop.tasks --processes 4           four of them, each with 10 jobs at once
      duly worker shop.tasks --resources gpu=1       runs tasks with needs={"gpu": 1}
      duly worker shop.tasks --burst                 what is ready now, and no more

    SIGTERM or Ctrl-C: nothing more is begun, and what runs comes to its end. A second time: what
    runs is stopped, and another worker will run it again. Both exit with 0.

    \b
    Exit codes: 0 it ended as it should, 1 something needs you, 2 something in the command line is
    wrong, 3 there is no such app, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    try:
        target = app or default_app("worker")
        if processes > 1:
            _supervise(target, processes, words)
        else:
            serve_app(target, worker=True, **words)
    except DulyError as error:
        refuse(error)


def _supervise(target: str, processes: int, words: dict[str, Any]) -> None:
    from duly.app import Supervisor

    commands = [_command(target, number, words) for number in range(1, processes + 1)]
    supervisor = Supervisor(commands, emit=teller(verbose=False))
    say(f"{processes} workers of {target}")
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
    """The command of one process: what was asked of us, without how many there are to be."""
    name = f"{words['name']}-{number}" if words["name"] else ""
    return [sys.executable, "-m", "duly", "worker", target, *typed({**words, "name": name})]
