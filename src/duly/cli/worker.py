"""``duly worker``: a process that runs jobs, or several of them."""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from duly.cli.store import refuse, run
from duly.errors import DulyError, InvalidValue, NotFound

if TYPE_CHECKING:
    from duly.app import Supervisor, WorkerWords
    from duly.events import Emit, Event
    from duly.registry.registry import Registry

MOST_NAMED = 10
MOST_PROCESSES = 256
MOST_SCANNED = 2_000


@click.command("worker")
@click.argument("app", required=False, metavar="[APP]", envvar="DULY_APP")
@click.option("--store", metavar="URL", help="Where jobs are kept; by default where APP says.")
@click.option(
    "--queues",
    default="default",
    show_default=True,
    metavar="A,B",
    help="Which lines of jobs it listens to.",
)
@click.option(
    "--concurrency",
    default=10,
    show_default=True,
    metavar="N",
    help="How many jobs run at once, in each process.",
)
@click.option(
    "--children",
    type=click.IntRange(1),
    metavar="N",
    help='Processes for tasks with executor="process"; as many as there are cores.',
)
@click.option(
    "--processes",
    type=click.IntRange(1, MOST_PROCESSES),
    default=1,
    show_default=True,
    metavar="N",
    help="Workers to start; one that dies is replaced.",
)
@click.option("--resources", metavar="gpu=1,mem=8", help="What tasks may need.")
@click.option("--name", default="", help="For people; by default the host and process number.")
@click.option(
    "--lease",
    default="15s",
    show_default=True,
    metavar="TIME",
    help="After so long without a word, its jobs are given to others.",
)
@click.option("--burst", is_flag=True, help="End when no job is ready.")
@click.option("--max-jobs", type=click.IntRange(1), metavar="N", help="End after so many jobs.")
@click.option("--max-idle", metavar="TIME", help="End after so long without any.")
@click.option(
    "--recycle-jobs", type=click.IntRange(1), metavar="N", help="Replace a child after so many."
)
@click.option("--recycle-memory", metavar="500MB", help="Replace a child that has grown so large.")
@click.option(
    "--scheduler/--no-scheduler", default=False, show_default=True, help="Fire schedules, too."
)
@click.option("-v", "--verbose", is_flag=True, help="A line for every job.")
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
        target = app or _default_app()
        if processes > 1:
            _supervise(target, processes, words)
        else:
            _work(target, **words)
    except DulyError as error:
        refuse(error)


def _work(target: str, *, store: str | None, scheduler: bool, verbose: bool, **words: Any) -> None:
    from duly.app import (
        SAID_BY_OPERATOR,
        Duly,
        Roles,
        Shift,
        address,
        follow,
        place,
        serve,
        worker_options,
    )
    from duly.registry.loading import find, load

    follow()
    if store:
        os.environ[SAID_BY_OPERATOR] = address(store)
    try:
        registry = load(target)
    except DulyError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the application does when imported
        raise SystemExit(_not_imported(target, error)) from None
    app = find(target)
    url = str(getattr(app, "url", None) or address(store))
    options = worker_options(dedicated=True, verbose=verbose, **_worded(words))
    roles = Roles(
        url=url,
        registry=registry,
        worker=options,
        scheduler=scheduler,
        target=target,
        announcement=app.announcement() if scheduler and isinstance(app, Duly) else None,
    )
    _say(f"store: {place(url)}")
    _say(_introduced(registry, options.queues, options.concurrency))
    run(serve(Shift(roles, _teller(verbose=verbose)), _say))


def _not_imported(target: str, error: Exception) -> int:
    """What its author has to know, without the steps of those who imported it."""
    step = error.__traceback__
    while step is not None and _is_no_step_of_theirs(step.tb_frame.f_code.co_filename):
        step = step.tb_next
    said = "".join(traceback.format_exception(error.with_traceback(step), chain=False))
    _say(f"Error: {target} cannot be imported:\n{said.rstrip()}")
    return 1


def _is_no_step_of_theirs(file: str) -> bool:
    return "importlib" in file or f"{os.sep}duly{os.sep}" in file


def _worded(words: dict[str, Any]) -> "WorkerWords":
    """What was typed, as it is said in Python."""
    said = {word: value for word, value in words.items() if value is not None}
    said["queues"] = [name.strip() for name in said["queues"].split(",")]
    if "resources" in said:
        said["resources"] = dict(map(_amount, said["resources"].split(",")))
    return cast("WorkerWords", said)


def _amount(text: str) -> tuple[str, int]:
    name, equals, amount = text.strip().partition("=")
    if not (name and equals and amount.isascii() and amount.isdigit()):
        raise InvalidValue(f'--resources: "{text}": names and whole numbers, as gpu=1,mem=8')
    return name, int(amount)


def _introduced(registry: "Registry", queues: Sequence[str], slots: int) -> str:
    names = [definition.name for definition in registry]
    shown = ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")
    return (
        f"queues: {', '.join(queues)}, {slots} at once\n"
        f"tasks: {shown or 'none: jobs are for workers that know their tasks'}"
    )


def _teller(*, verbose: bool) -> "Emit":
    from duly.app import sentence

    def tell(event: "Event") -> None:
        said = sentence(event, verbose=verbose)
        if said:
            _say(said)

    return tell


def _supervise(target: str, processes: int, words: dict[str, Any]) -> None:
    from duly.app import Supervisor

    commands = [_command(target, number, words) for number in range(1, processes + 1)]
    supervisor = Supervisor(commands, emit=_teller(verbose=False))
    _say(f"{processes} workers of {target}")
    code = run(_watched(supervisor))
    if code:
        raise SystemExit(code)


async def _watched(supervisor: "Supervisor") -> int:
    import asyncio

    loop, heard = asyncio.get_running_loop(), 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        _say("stopping now" if heard > 1 else "stopping; again to stop now")
        supervisor.stop(signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, hear)
    return await supervisor.run()


def _command(target: str, number: int, words: dict[str, Any]) -> list[str]:
    """The command of one process: what was asked of us, without how many there are to be."""
    asked = [sys.executable, "-m", "duly", "worker", target]
    for word, value in words.items():
        option = f"--{word.replace('_', '-')}"
        match value:
            case None | False | "":
                pass
            case True:
                asked.append(option)
            case _:
                asked += [option, f"{value}-{number}" if word == "name" else str(value)]
    return asked


def _default_app() -> str:
    if Path("tasks.py").is_file():
        return "tasks.py"
    found = _likely_app()
    if found:
        raise InvalidValue(
            f"no app is named. Duly() is created in {found}: try  duly worker {found}"
        )
    raise NotFound(
        "no app is named, and there is no tasks.py here: duly worker shop.tasks, or set DULY_APP"
    )


def _likely_app() -> str | None:
    """A file that makes one, by its text: nothing is imported."""
    for count, path in enumerate(sorted(Path().glob("*.py")) + sorted(Path().glob("*/*.py"))):
        if count >= MOST_SCANNED:
            return None
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if "= Duly(" in text:
            return str(path)
    return None


def _say(text: str) -> None:
    click.echo(text, err=True)
