"""``duly workers``: who runs jobs, and what they are told."""

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import click

from duly.cli.output import roughly, table
from duly.cli.store import ask, output_option, store_option
from duly.clock import now
from duly.errors import NotFound

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.worker import Order, WorkerInfo

_NAME = click.argument("name", metavar="NAME")


@click.group(invoke_without_command=True)
@click.pass_context
@store_option
@output_option
def workers(context: click.Context, store: str, output: str) -> None:
    """List the workers, or tell one something by its name or its number.

    \b
      duly workers
      duly workers drain web-1        begin nothing more, and stay
      duly workers resume web-1
      duly workers scale web-1 20     run 20 jobs at once
      duly workers stop web-1         finish what runs, and end
      duly workers stop web-1 --now   stop what runs, too
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if context.invoked_subcommand is None:
        _list(store, output)


@workers.command("list")
@store_option
@output_option
def list_command(store: str, output: str) -> None:
    """List the workers that live."""
    _list(store, output)


@workers.command("drain")
@_NAME
@store_option
def drain(name: str, store: str) -> None:
    """Begin nothing more; what runs comes to its end, and the worker waits."""
    _tell(store, name, "drain")


@workers.command("resume")
@_NAME
@store_option
def resume(name: str, store: str) -> None:
    """Begin jobs again."""
    _tell(store, name, "run")


@workers.command("stop")
@_NAME
@click.option("--now", "at_once", is_flag=True, help="Stop what runs, too; others run it again.")
@store_option
def stop(name: str, at_once: bool, store: str) -> None:  # noqa: FBT001 - click's
    """Finish what runs, and end."""
    _tell(store, name, "kill" if at_once else "stop")


@workers.command("scale")
@_NAME
@click.argument("slots", type=click.IntRange(1, 10_000), metavar="N")
@store_option
def scale(name: str, slots: int, store: str) -> None:
    """Run N jobs at once."""
    _tell(store, name, "keep", slots=slots)


def _list(url: str, output: str) -> None:
    found = ask(url, lambda store: store.work.living())
    moment = now()
    if output == "json":
        click.echo(json.dumps([_plain(info) for info in found]))
    elif found:
        click.echo(table(HEADINGS, [_row(info, moment) for info in found]))
    else:
        click.echo("no worker lives; start one: duly worker", err=True)


HEADINGS = ("NAME", "ID", "PID", "QUEUES", "RUNNING", "BEAT", "ORDER")


def _row(info: "WorkerInfo", moment: datetime) -> tuple[str, ...]:
    ago = max(moment - info.beat_at, timedelta())
    return (
        info.name,
        str(info.id),
        str(info.profile.host.pid),
        ",".join(info.queues),
        f"{info.running}/{_slots(info)}",
        f"{roughly(ago)} ago",
        info.order,
    )


def _plain(info: "WorkerInfo") -> dict[str, object]:
    return {
        "id": info.id,
        "name": info.name,
        "pid": info.profile.host.pid,
        "queues": list(info.queues),
        "tasks": list(info.tasks),
        "resources": dict(info.profile.resources),
        "running": info.running,
        "slots": _slots(info),
        "started_at": info.started_at.isoformat(),
        "beat_at": info.beat_at.isoformat(),
        "lease_until": info.lease_until.isoformat(),
        "order": info.order,
        "version": info.profile.version,
    }


def _slots(info: "WorkerInfo") -> int:
    return info.profile.slots if info.slots_ordered is None else info.slots_ordered


def _tell(
    url: str, name: str, order: 'Order | Literal["keep"]', *, slots: int | None = None
) -> None:
    async def tell(store: "Store") -> list["WorkerInfo"]:
        meant = _meant(name, await store.work.living())
        for info in meant:
            told: Order = info.order if order == "keep" else order
            await store.work.tell(info.id, told, slots=slots)
        return meant

    for info in ask(url, tell):
        click.echo(f"told {info.name} ({info.id})")


def _meant(name: str, living: "list[WorkerInfo]") -> "list[WorkerInfo]":
    """Those of the name; or the one of that number."""
    meant = [info for info in living if info.name == name]
    if not meant:
        meant = [info for info in living if str(info.id) == name]
    if not meant:
        there = ", ".join(sorted({info.name for info in living})) or "none"
        raise NotFound(f'no worker is called "{name}" and lives; there is {there}')
    return meant
