"""``duly workers``: list the workers, and send them orders."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from duly.cli.formats import Listing, NounGroup, View, list_options, show_list
from duly.cli.options import WholeNumber
from duly.cli.output import roughly
from duly.cli.store import ask, store_option

if TYPE_CHECKING:
    from duly.app import Store
    from duly.app.capacity import Workers
    from duly.model.worker import WorkerInfo
    from duly.views.capacity import WorkerView

_NAME = click.argument("name", metavar="NAME")


@click.group(cls=NounGroup)
def workers() -> None:
    """List the workers, or tell one something by its name or its number.

    \b
      duly workers
      duly workers drain web-1        begin nothing more, and stay
      duly workers resume web-1
      duly workers scale web-1 20     run 20 jobs at once
      duly workers stop web-1         finish what runs, and end
      duly workers stop web-1 --now   stop what runs, too

    \b
    Exit codes: 0 ok, 2 something in the command line is wrong, 3 there is no such worker, 5 the
    store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are


@workers.command("list")
@store_option
@list_options
def list_command(store: str, view: View) -> None:
    """List the workers that live.

    \b
      duly workers
      duly workers -o wide        with their tasks, resources and versions
      duly workers --watch

    RUNNING is the number of jobs that it runs, of how many it may run at once. HEARTBEAT is the age
    of its last heartbeat. STATE is the requested state, or that its process is gone, where that can
    be seen from here.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    from duly.views.capacity import worker_list

    show_list(store, view, worker_list, WORKERS)


@workers.command("drain")
@_NAME
@store_option
def drain(name: str, store: str) -> None:
    """Begin nothing more; what runs comes to its end, and the worker waits."""
    _tell(store, lambda people: people.adrain(name), "draining: begins nothing more")


@workers.command("resume")
@_NAME
@store_option
def resume(name: str, store: str) -> None:
    """Begin jobs again."""
    _tell(store, lambda people: people.aresume(name), "resumed: begins jobs again")


@workers.command("stop")
@_NAME
@click.option("--now", "at_once", is_flag=True, help="Stop what runs, too; others run it again.")
@store_option
def stop(name: str, at_once: bool, store: str) -> None:  # noqa: FBT001 - click's
    """Finish what runs, and end."""
    doing = "stopping now, with what runs" if at_once else "stopping: finishes what runs, and ends"
    _tell(store, lambda people: people.astop(name, now=at_once), doing)


@workers.command("scale")
@_NAME
@click.argument("slots", type=WholeNumber(1, 10_000), metavar="N")
@store_option
def scale(name: str, slots: int, store: str) -> None:
    """Run N jobs at once."""
    _tell(store, lambda people: people.ascale(name, concurrency=slots), f"{slots} jobs at once")


def _tell(
    url: str, order: "Callable[[Workers], Awaitable[Sequence[WorkerInfo]]]", doing: str
) -> None:
    """Send the order; print for each worker what it does now, or that it is gone."""

    async def told(store: "Store") -> "list[WorkerView]":
        from duly.app.capacity import Workers
        from duly.connection import OpenStore
        from duly.views.capacity import WorkerView

        return [WorkerView.of(info) for info in await order(Workers(OpenStore(store)))]

    for one in ask(url, told):
        click.echo(f"{one.name} ({one.id}): {_gone(one, View()) or doing}")


def _row(worker: "WorkerView", view: View) -> tuple[str, ...]:
    ago = max(view.now - worker.beat_at, timedelta())
    return (
        worker.name,
        str(worker.id),
        str(worker.pid),
        ",".join(worker.queues),
        f"{worker.running}/{worker.slots}",
        f"{roughly(ago)} ago",
        _gone(worker, view) or worker.order,
        ",".join(worker.tasks),
        ",".join(f"{name}={amount}" for name, amount in worker.resources.items()) or "-",
        worker.version,
    )


def _gone(worker: "WorkerView", view: View) -> str:
    return f"gone, its lease ends {view.left(worker.lease_until)}" if worker.gone else ""


WORKERS: "Listing[WorkerView]" = Listing(
    headings=("NAME", "ID", "PID", "QUEUES", "RUNNING", "HEARTBEAT", "STATE"),
    wide=("TASKS", "RESOURCES", "VERSION"),
    row=_row,
    name=lambda worker: worker.name,
    nothing="no worker lives; start one: duly worker",
    colour=lambda worker: None if worker.order == "run" else "yellow",
)
