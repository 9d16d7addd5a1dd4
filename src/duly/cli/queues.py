"""``duly queues``: lines of jobs, held up or slowed down by hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from duly.cli.output import table
from duly.cli.store import ask, output_option, store_option
from duly.errors import InvalidValue

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.limit import Rate
    from duly.model.queue import Queue

_NAME = click.argument("name", metavar="NAME")
NO_LIMIT = "none"


@click.group(invoke_without_command=True)
@click.pass_context
@store_option
@output_option
def queues(context: click.Context, store: str, output: str) -> None:
    """List the queues, or set one, for all workers.

    \b
      duly queues
      duly queues pause mail --note "the relay is down"
      duly queues resume mail
      duly queues set mail --concurrency 20 --rate 100/m
      duly queues set mail --rate none --fair      tenants take turns
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if context.invoked_subcommand is None:
        _list(store, output)


@queues.command("list")
@store_option
@output_option
def list_command(store: str, output: str) -> None:
    """List the queues that were set, or that a worker listens to."""
    _list(store, output)


@queues.command("pause")
@_NAME
@click.option("--note", default="", help="Why, for whoever wonders.")
@store_option
def pause(name: str, note: str, store: str) -> None:
    """Begin nothing of it; what runs comes to its end."""
    _change(store, name, lambda queue: replace(queue, paused=True, note=note))


@queues.command("resume")
@_NAME
@store_option
def resume(name: str, store: str) -> None:
    """Begin jobs of it again."""
    _change(store, name, lambda queue: replace(queue, paused=False, note=""))


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

    def change(queue: "Queue") -> "Queue":
        if concurrency is not None:
            queue = replace(queue, concurrency=_count(concurrency))
        if rate is not None:
            queue = replace(queue, rate=_rate(rate))
        return queue if fair is None else replace(queue, fair=fair)

    _change(store, name, change)


def _list(url: str, output: str) -> None:
    from duly.model.queue import Queue

    async def known(store: "Store") -> list[Queue]:
        found = {queue.name: queue for queue in await store.work.queues()}
        for info in await store.work.living():
            for name in info.queues:
                found.setdefault(name, Queue(name=name))
        return [found[name] for name in sorted(found)]

    found = ask(url, known)
    if output == "json":
        click.echo(json.dumps([_plain(queue) for queue in found]))
    elif found:
        click.echo(table(("QUEUE", "STATE", "AT ONCE", "RATE", "NOTE"), [_row(q) for q in found]))
    else:
        click.echo("no queue was set, and no worker listens to any", err=True)


def _row(queue: "Queue") -> tuple[str, ...]:
    state = "paused" if queue.paused else "fair" if queue.fair else "open"
    return (
        queue.name,
        state,
        "-" if queue.concurrency is None else str(queue.concurrency),
        "-" if queue.rate is None else str(queue.rate),
        queue.note,
    )


def _plain(queue: "Queue") -> dict[str, object]:
    return {
        "name": queue.name,
        "paused": queue.paused,
        "note": queue.note,
        "concurrency": queue.concurrency,
        "rate": None if queue.rate is None else str(queue.rate),
        "fair": queue.fair,
    }


def _change(url: str, name: str, change: "Callable[[Queue], Queue]") -> None:
    from duly.model.queue import Queue

    async def changed(store: "Store") -> Queue:
        known = {queue.name: queue for queue in await store.work.queues()}
        queue = change(known.get(name) or Queue(name=name))
        await store.work.set_queue(queue)
        return queue

    queue = ask(url, changed)
    click.echo("  ".join(cell for cell in _row(queue) if cell))


def _count(text: str) -> int | None:
    if text == NO_LIMIT:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidValue(f"--concurrency {text}: a whole number from 1, or none for no limit")
    return int(text)


def _rate(text: str) -> "Rate | None":
    from duly.model.limit import Rate

    return None if text == NO_LIMIT else Rate.parse(text)
