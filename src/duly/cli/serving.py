"""What the commands share that run an app: which it is, what it may do, how it is served."""

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from duly.cli.store import run
from duly.errors import DulyError, InvalidValue, NotFound

if TYPE_CHECKING:
    from duly.app import WorkerWords
    from duly.events import Emit, Event
    from duly.registry.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])

MOST_NAMED = 10
MOST_SCANNED = 2_000

app_argument = click.argument("app", required=False, metavar="[APP]", envvar="DULY_APP")


def serving_options(command: F) -> F:
    """Where an app keeps its jobs, what it may run, and how much it says."""
    for option in reversed((
        click.option(
            "--store", metavar="URL", help="Where jobs are kept; by default where APP says."
        ),
        click.option(
            "--allow",
            default="",
            envvar="DULY_ALLOW",
            metavar="shell,http",
            help="Tasks of duly's own that may run here: shell (and commands), http.",
        ),
        click.option(
            "--allow-networks",
            default="",
            envvar="DULY_ALLOW_NETWORKS",
            metavar="10.1.0.0/16,…",
            help="Private networks and hosts that http may reach.",
        ),
        click.option("-v", "--verbose", is_flag=True, help="A line for every job."),
    )):  # fmt: skip
        command = option(command)
    return command


def working_options(command: F) -> F:
    """How a worker works."""
    for option in reversed((
        click.option(
            "--queues",
            default="default",
            show_default=True,
            metavar="A,B",
            help="Which lines of jobs it listens to.",
        ),
        click.option(
            "--concurrency",
            default=10,
            show_default=True,
            metavar="N",
            help="How many jobs run at once, in each process.",
        ),
        click.option(
            "--children",
            type=click.IntRange(1),
            metavar="N",
            help='Processes for tasks with executor="process"; as many as there are cores.',
        ),
        click.option("--resources", metavar="gpu=1,mem=8", help="What tasks may need."),
        click.option(
            "--name", default="", help="For people; by default the host and process number."
        ),
        click.option(
            "--lease",
            default="15s",
            show_default=True,
            metavar="TIME",
            help="After so long without a word, its jobs are given to others.",
        ),
        click.option(
            "--recycle-jobs",
            type=click.IntRange(1),
            metavar="N",
            help="Replace a child after so many.",
        ),
        click.option(
            "--recycle-memory", metavar="500MB", help="Replace a child that has grown so large."
        ),
    )):  # fmt: skip
        command = option(command)
    return command


def serve_app(
    target: str,
    *,
    store: str | None,
    allow: str,
    allow_networks: str,
    worker: bool,
    scheduler: bool,
    verbose: bool,
    **words: Any,
) -> None:
    """Run an app until it is done, or told to stop."""
    from duly.app import (
        SAID_BY_OPERATOR,
        Duly,
        Roles,
        Shift,
        address,
        allow_builtin,
        follow,
        place,
        serve,
        worker_options,
    )
    from duly.registry.loading import find

    follow()
    if store:
        os.environ[SAID_BY_OPERATOR] = address(store)
    registry = imported(target)
    app = find(target)
    allow_builtin(registry, parted(allow), networks=parted(allow_networks))
    url = str(getattr(app, "url", None) or address(store))
    options = None
    if worker:
        options = worker_options(dedicated=True, verbose=verbose, **_worded(words))
    roles = Roles(
        url=url,
        registry=registry,
        worker=options,
        scheduler=scheduler,
        target=target,
        announcement=app.announcement() if scheduler and isinstance(app, Duly) else None,
    )
    say(f"store: {place(url)}")
    if options is not None:
        say(_introduced(registry, options.queues, options.concurrency))
    run(serve(Shift(roles, teller(verbose=verbose)), say))


def imported(target: str) -> "Registry":
    """The tasks of an app; or what its author has to know."""
    from duly.registry.loading import load

    try:
        return load(target)
    except DulyError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the application does when imported
        raise SystemExit(_not_imported(target, error)) from None


def _not_imported(target: str, error: Exception) -> int:
    """Without the steps of those who imported it."""
    step = error.__traceback__
    while step is not None and _is_no_step_of_theirs(step.tb_frame.f_code.co_filename):
        step = step.tb_next
    said = "".join(traceback.format_exception(error.with_traceback(step), chain=False))
    say(f"Error: {target} cannot be imported:\n{said.rstrip()}")
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


def parted(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def typed(words: Mapping[str, Any]) -> list[str]:
    """What was typed for us, to be typed for another process."""
    said = []
    for word, value in words.items():
        option = f"--{word.replace('_', '-')}"
        match value:
            case None | False | "":
                pass
            case True:
                said.append(option)
            case _:
                said += [option, str(value)]
    return said


def _introduced(registry: "Registry", queues: Sequence[str], slots: int) -> str:
    names = [definition.name for definition in registry]
    shown = ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")
    return (
        f"queues: {', '.join(queues)}, {slots} at once\n"
        f"tasks: {shown or 'none: jobs are for workers that know their tasks'}"
    )


def teller(*, verbose: bool) -> "Emit":
    from duly.app import sentence

    def tell(event: "Event") -> None:
        said = sentence(event, verbose=verbose)
        if said:
            say(said)

    return tell


def default_app(command: str) -> str:
    if Path("tasks.py").is_file():
        return "tasks.py"
    found = _likely_app()
    if found:
        raise InvalidValue(
            f"no app is named. Duly() is created in {found}: try  duly {command} {found}"
        )
    raise NotFound(
        "no app is named, and there is no tasks.py here: "
        f"duly {command} shop.tasks, or set DULY_APP"
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


def say(text: str) -> None:
    click.echo(text, err=True)
