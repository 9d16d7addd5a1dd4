"""``duly queues``: list the queues, pause and limit them."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from duly.cli.formats import NOTHING, Listing, NounGroup, View, list_options, show_list
from duly.cli.store import ask, refuse, store_option
from duly.errors import InvalidValue
from duly.policy.printable import one_line

if TYPE_CHECKING:
    from duly.app import Store
    from duly.app.capacity import Queues
    from duly.model.queue import Queue
    from duly.views.capacity import QueueView

_NAME = click.argument("name", metavar="NAME")
NO_LIMIT = "none"


@click.group(cls=NounGroup)
def queues() -> None:
    """List the queues, or set one, for all workers.

    \b
      duly queues
      duly queues pause mail --note "the relay is down"
      duly queues resume mail
      duly queues set mail --concurrency 20 --rate 100/m
      duly queues set mail --rate none --fair      tenants take turns

    \b
    Exit codes: 0 ok, 2 something in the command line is wrong, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are


@queues.command("list")
@store_option
@list_options
def list_command(store: str, view: View) -> None:
    """List the queues that were set, that a worker listens to, or that hold jobs.

    \b
      duly queues
      duly queues --watch
      duly queues -o json
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    from duly.views.capacity import queue_list

    show_list(store, view, queue_list, QUEUES)


@queues.command("pause")
@_NAME
@click.option("--note", default="", help="Reason, shown to others.")
@store_option
def pause(name: str, note: str, store: str) -> None:
    """Start no more jobs of a queue; running jobs finish."""
    _change(store, lambda lines: lines.apause(name, note=note))


@queues.command("resume")
@_NAME
@store_option
def resume(name: str, store: str) -> None:
    """Begin jobs of it again."""
    _change(store, lambda lines: lines.aresume(name))


@queues.command("set")
@_NAME
@click.option("--concurrency", metavar="N", help="Jobs of it at once, in all; none: no limit.")
@click.option("--rate", metavar="100/m", help="How often one may begin; none: no limit.")
@click.option("--fair/--no-fair", default=None, help="Whether tenants take turns.")
@store_option
def set_command(
    *,
    name: str,
    concurrency: str | None,
    rate: str | None,
    fair: bool | None,
    store: str,
) -> None:
    """Limit it, in the whole cluster. What is not said stays as it is."""
    if concurrency is None and rate is None and fair is None:
        raise click.UsageError("say what to set: --concurrency, --rate, --fair or --no-fair")
    words: dict[str, Any] = {} if fair is None else {"fair": fair}
    if rate is not None:
        words["rate"] = None if rate == NO_LIMIT else rate
    if concurrency is not None:
        try:
            words["concurrency"] = _count(concurrency)
        except InvalidValue as error:
            refuse(error)
    _change(store, lambda lines: lines.aset(name, **words), make=True)


def _change(
    url: str, change: "Callable[[Queues], Awaitable[Queue]]", *, make: bool = False
) -> None:
    async def changed(store: "Store") -> "tuple[QueueView, str | None]":
        from duly.app.capacity import Queues
        from duly.connection import OpenStore
        from duly.views.capacity import queue_view
        from duly.views.workers import unheard_queue

        queue = await change(Queues(OpenStore(store)))
        return await queue_view(store, queue), await unheard_queue(store, queue.name)

    queue, note = ask(url, changed, make=make)
    click.echo("  ".join(one_line(cell) for cell in _row(queue) if cell))
    if note:
        click.echo(f"note: {one_line(note)}", err=True)


def _row(queue: "QueueView") -> tuple[str, ...]:
    state = "paused" if queue.paused else "fair" if queue.fair else "open"
    return (
        queue.name,
        state,
        NOTHING if queue.concurrency is None else str(queue.concurrency),
        queue.rate or NOTHING,
        queue.note,
    )


def _depths(queue: "QueueView") -> tuple[str, ...]:
    return str(queue.ready), str(queue.scheduled), str(queue.blocked), str(queue.running)


QUEUES: "Listing[QueueView]" = Listing(
    headings=("QUEUE", "STATE", "CONCURRENCY", "RATE", "NOTE"),
    wide=("READY", "SCHEDULED", "BLOCKED", "RUNNING"),
    row=lambda queue, _: (*_row(queue), *_depths(queue)),
    name=lambda queue: queue.name,
    nothing="no queue was set, and no worker listens to any",
    colour=lambda queue: "yellow" if queue.paused else None,
)


def _count(text: str) -> int | None:
    if text == NO_LIMIT:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidValue(f"--concurrency {text}: a whole number from 1, or none for no limit")
    return int(text)
