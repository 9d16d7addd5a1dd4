"""``duly workers``: who runs jobs, and what they are told."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from duly.cli.formats import Listing, NounGroup, View, iso, list_options, show_list
from duly.cli.options import WholeNumber
from duly.cli.output import roughly
from duly.cli.store import ask, store_option

if TYPE_CHECKING:
    from duly.app import Store
    from duly.app.capacity import Workers
    from duly.model.worker import WorkerInfo

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

    RUNNING is how many jobs of how many it can run at once. BEAT is when it was last heard of.
    ORDER is what it was told to do, or that its process is gone, where that can be seen from here.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    show_list(store, view, lambda there: there.work.living(), WORKERS)


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
    """Tell it, and say what each that was told does from now on; one that is gone does nothing."""

    async def told(store: "Store") -> "Sequence[WorkerInfo]":
        from duly.app.capacity import Workers
        from duly.connection import OpenStore

        return await order(Workers(OpenStore(store)))

    for info in ask(url, told):
        click.echo(f"{info.name} ({info.id}): {_gone(info, View()) or doing}")


def _row(info: "WorkerInfo", view: View) -> tuple[str, ...]:
    ago = max(view.now - info.beat_at, timedelta())
    return (
        info.name,
        str(info.id),
        str(info.profile.host.pid),
        ",".join(info.queues),
        f"{info.running}/{_slots(info)}",
        f"{roughly(ago)} ago",
        _order(info, view),
        ",".join(info.tasks),
        ",".join(f"{name}={amount}" for name, amount in info.profile.resources.items()) or "-",
        info.profile.version,
    )


def _order(info: "WorkerInfo", view: View) -> str:
    """What it was told; and if its process is not there any more, that."""
    return _gone(info, view) or info.order


def _gone(info: "WorkerInfo", view: View) -> str:
    from duly.views.workers import is_gone

    return f"gone, its lease ends {view.left(info.lease_until)}" if is_gone(info) else ""


def _plain(info: "WorkerInfo") -> dict[str, object]:
    from duly.views.workers import is_gone

    return {
        "id": info.id,
        "name": info.name,
        "pid": info.profile.host.pid,
        "queues": list(info.queues),
        "tasks": list(info.tasks),
        "resources": dict(info.profile.resources),
        "running": info.running,
        "slots": _slots(info),
        "started_at": iso(info.started_at),
        "beat_at": iso(info.beat_at),
        "lease_until": iso(info.lease_until),
        "order": info.order,
        "gone": is_gone(info),
        "version": info.profile.version,
    }


def _slots(info: "WorkerInfo") -> int:
    return info.profile.slots if info.slots_ordered is None else info.slots_ordered


WORKERS: "Listing[WorkerInfo]" = Listing(
    headings=("NAME", "ID", "PID", "QUEUES", "RUNNING", "BEAT", "ORDER"),
    wide=("TASKS", "RESOURCES", "VERSION"),
    row=_row,
    plain=_plain,
    name=lambda info: info.name,
    nothing="no worker lives; start one: duly worker",
    colour=lambda info: None if info.order == "run" else "yellow",
)
