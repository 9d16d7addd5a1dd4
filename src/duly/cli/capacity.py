"""``duly queues``, ``duly limits`` and ``duly workers``: list them, limit them, give orders."""

from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final

import click

from duly.app import Store
from duly.app.capacity import Queues, Workers
from duly.app.nouns import StoreNouns
from duly.cli.app_and_store import ask, store_option
from duly.cli.formats import (
    NOTHING,
    Column,
    Listing,
    NounGroup,
    View,
    cell,
    list_options,
    show_list,
)
from duly.cli.options import F, WholeNumber, with_options
from duly.errors import InvalidValue
from duly.model.limit import Limit, LimitInfo, Queue, Rate
from duly.model.worker import WorkerInfo
from duly.policy.redaction import one_line
from duly.views.capacity import (
    LimitView,
    QueueView,
    WorkerView,
    limit_list,
    many,
    queue_list,
    queue_view,
    unheard_queue,
    worker_list,
)

NO_LIMIT = "none"
MOST_LISTED = 10_000
_NAME = click.argument("name", metavar="NAME")


def _limit_options(command: F) -> F:
    return with_options(
        command,
        click.option(
            "--concurrency",
            metavar="N",
            help="Jobs that run at once, in the whole cluster; none: no limit.",
        ),
        click.option(
            "--rate",
            metavar="100/m",
            help="Rate at which jobs may start, as 5/s; none: no limit.",
        ),
    )


@click.group(cls=NounGroup)
def queues() -> None:
    """List the queues; pause, resume or limit one, for all workers.

    \b
      duly queues
      duly queues pause mail --note "the relay is down"
      duly queues resume mail
      duly queues set mail --concurrency 20 --rate 100/m
      duly queues set mail --rate none --fair      tenants take turns

    \b
    Exit codes: 0 success, 2 invalid usage, 5 the database cannot be reached.
    """


@queues.command("list")
@store_option
@list_options
def list_queues(store: str, view: View) -> None:
    """List the queues that are configured, have a worker or have jobs, with counts by state.

    Ended jobs are counted until they are deleted: the last 10,000 of all queues, and as many
    failed ones. A + means that there are more.

    \b
      duly queues
      duly queues --watch
      duly queues -o json
    """
    show_list(store, view, queue_list, QUEUES)


@queues.command("pause")
@_NAME
@click.option("--note", default="", help="Reason, shown to others.")
@store_option
def pause_queue(name: str, note: str, store: str) -> None:
    """Start no more jobs of a queue; running jobs finish."""
    _change_queue(store, lambda lines: lines.apause(name, note=note))


@queues.command("resume")
@_NAME
@store_option
def resume_queue(name: str, store: str) -> None:
    """Start jobs of a queue again."""
    _change_queue(store, lambda lines: lines.aresume(name))


@queues.command("set")
@_NAME
@_limit_options
@click.option("--fair/--no-fair", default=None, help="Whether tenants take turns.")
@store_option
def set_queue(
    *,
    name: str,
    concurrency: str | None,
    rate: str | None,
    fair: bool | None,
    store: str,
) -> None:
    """Limit a queue in the whole cluster. Options that are not given stay unchanged."""
    if concurrency is None and rate is None and fair is None:
        raise click.UsageError("say what to set: --concurrency, --rate, --fair or --no-fair")
    words: dict[str, Any] = {} if fair is None else {"fair": fair}
    if rate is not None:
        words["rate"] = None if rate == NO_LIMIT else rate
    if concurrency is not None:
        words["concurrency"] = _parsed_count(concurrency)
    _change_queue(store, lambda lines: lines.aset(name, **words), make=True)


def _change_queue(
    url: str, change: Callable[[Queues], Awaitable[Queue]], *, make: bool = False
) -> None:
    async def changed(store: Store) -> tuple[QueueView, str | None]:
        queue = await change(StoreNouns(store).queues)
        return await queue_view(store, queue), await unheard_queue(store, queue.name)

    queue, note = ask(url, changed, make=make)
    cells = (cell(queue, View(), column) for column in _SETTINGS.values())
    click.echo("  ".join(one_line(text) for text in cells if text))
    if note:
        click.echo(f"note: {one_line(note)}", err=True)


def _state(queue: QueueView, _: View) -> str:
    return "paused" if queue.paused else "fair" if queue.fair else "open"


def _count(state: str, whole: str = "") -> Column[QueueView]:
    """Return the column of the jobs in a state; a ``+`` means that there may be more."""
    return lambda queue, _: many(
        getattr(queue, state), whole=getattr(queue, whole) if whole else True
    )


_SETTINGS: Final[dict[str, Column[QueueView]]] = {
    "QUEUE": "name",
    "STATE": _state,
    "CONCURRENCY": "concurrency",
    "RATE": "rate",
    "NOTE": lambda queue, _: queue.note,
}
QUEUES: Listing[QueueView] = Listing(
    columns={
        **_SETTINGS,
        "SCHEDULED": _count("scheduled"),
        "READY": _count("ready"),
        "RUNNING": _count("running"),
        "SUCCEEDED": _count("succeeded", "ended_whole"),
        "FAILED": _count("failed", "failed_whole"),
        "CANCELLED": _count("cancelled", "ended_whole"),
    },
    wide={"BLOCKED": _count("blocked"), "EXPIRED": _count("expired", "ended_whole")},
    name=lambda queue: queue.name,
    nothing="no queue is configured or has a worker",
    colour=lambda queue: "yellow" if queue.paused else None,
)


@click.group(cls=NounGroup)
def limits() -> None:
    """List the limits that jobs have used, or override one.

    \b
      duly limits
      duly limits set mail --rate 100/m                       overrides the code
      duly limits set "crm:{customer_id}" --concurrency 2     for every customer
      duly limits set crm:17 --concurrency 5                  for this one
      duly limits reset crm:17                                the limit of the code applies again

    A limit set for a name takes precedence over one set for its template, and both over the code.

    \b
    Exit codes: 0 success, 2 invalid usage, 5 the database cannot be reached.
    """


@limits.command("list")
@store_option
@list_options
def list_limits(store: str, view: View) -> None:
    """List the limits that jobs have used, the last used first.

    \b
      duly limits
      duly limits -o wide         with the template that a name is made from
      duly limits --watch

    RUNNING is the number of jobs that hold the limit, WAITING the number that wait for it.
    """
    show_list(store, view, limit_list, LIMITS)


@limits.command("set")
@_NAME
@_limit_options
@store_option
def set_limit(*, name: str, concurrency: str | None, rate: str | None, store: str) -> None:
    """Set a limit by its name or its template; this overrides the code.

    \b
      duly limits set mail --rate 100/m
      duly limits set "crm:{customer_id}" --concurrency 2
      duly limits set mail --rate none

    Options that are not given stay unchanged.
    """
    if concurrency is None and rate is None:
        raise click.UsageError("say what to set: --concurrency, --rate, or both")

    async def done(there: Store) -> tuple[int | None, Rate | None]:
        known = await there.limits.listed(limit=MOST_LISTED)
        numbers = _numbers(name, known, concurrency=concurrency, rate=rate)
        await there.limits.set(name, concurrency=numbers[0], rate=numbers[1])
        _say_if_unmet(name, known)
        return numbers

    at_once, often = ask(store, done)
    click.echo(f"set  {name}  concurrency {_shown(at_once)}  rate {_shown(often)}")


@limits.command("reset")
@_NAME
@store_option
def reset_limit(name: str, store: str) -> None:
    """Remove the override of a limit; the limit of the code applies again.

    \b
      duly limits reset crm:17
    """

    async def done(there: Store) -> None:
        await there.limits.unset(name)
        _say_if_unmet(name, await there.limits.listed(limit=MOST_LISTED))

    ask(store, done)
    click.echo(f"reset  {name}")


LIMITS: Listing[LimitView] = Listing(
    columns={
        "LIMIT": "name",
        "CONCURRENCY": "concurrency",
        "RATE": "rate",
        "RUNNING": "running",
        "WAITING": "waiting",
    },
    wide={"TEMPLATE": lambda limit, _: limit.template},
    name=lambda lane: lane.name,
    nothing="no job has used a limit yet",
    colour=lambda lane: "yellow" if lane.waiting else None,
)


def _numbers(
    name: str, known: Sequence[LimitInfo], *, concurrency: str | None, rate: str | None
) -> tuple[int | None, Rate | None]:
    """Return concurrency and rate: the given values, and the current ones for those not given."""
    found = [lane for lane in known if lane.name == name]
    found += [lane for lane in known if lane.template == name]
    at_once = found[0].concurrency if found else None
    often: Rate | str | None = found[0].rate if found else None
    if concurrency is not None:
        at_once = _parsed_count(concurrency)
    if rate is not None:
        often = None if rate == NO_LIMIT else rate
    if at_once is None and often is None:
        return None, None
    limit = Limit(name, concurrency=at_once, rate=often)
    return limit.concurrency, limit.rate


def _parsed_count(text: str) -> int | None:
    if text == NO_LIMIT:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidValue(f"--concurrency {text}: a whole number from 1, or none for no limit")
    return int(text)


def _say_if_unmet(name: str, known: Sequence[LimitInfo]) -> None:
    names = {lane.name for lane in known} | {lane.template for lane in known}
    if name not in names:
        near = get_close_matches(name, sorted(names), n=1)
        meant = f'; did you mean "{near[0]}"?' if near else ""
        click.echo(f'note: no job has used a limit "{name}" yet{meant}', err=True)


def _shown(number: object) -> str:
    return NOTHING if number is None else str(number)


@click.group(cls=NounGroup)
def workers() -> None:
    """List the workers; drain, resume, scale or stop one by its name or number.

    \b
      duly workers
      duly workers drain web-1        start no more jobs, keep running
      duly workers resume web-1
      duly workers scale web-1 20     run 20 jobs at once
      duly workers stop web-1         finish its running jobs, then stop
      duly workers stop web-1 --now   also stop its running jobs

    \b
    Exit codes: 0 success, 2 invalid usage, 3 no such worker, 5 the database cannot be reached.
    """


@workers.command("list")
@store_option
@list_options
def list_workers(store: str, view: View) -> None:
    """List the workers that are alive.

    \b
      duly workers
      duly workers -o wide        with their tasks, resources and versions
      duly workers --watch

    RUNNING is the number of running jobs and the concurrency. HEARTBEAT is the age of the last
    heartbeat. STATE is the requested state, or that the process is gone, if this machine can see
    that.
    """
    show_list(store, view, worker_list, WORKERS)


@workers.command("drain")
@_NAME
@store_option
def drain_worker(name: str, store: str) -> None:
    """Start no more jobs on a worker; its running jobs finish, and the worker waits."""
    _tell_worker(store, lambda people: people.adrain(name), "draining: starts no more jobs")


@workers.command("resume")
@_NAME
@store_option
def resume_worker(name: str, store: str) -> None:
    """Let a worker start jobs again."""
    _tell_worker(store, lambda people: people.aresume(name), "resumed: starts jobs again")


@workers.command("stop")
@_NAME
@click.option(
    "--now", "at_once", is_flag=True, help="Also stop running jobs; other workers run them again."
)
@store_option
def stop_worker(name: str, at_once: bool, store: str) -> None:  # noqa: FBT001 - click's
    """Finish the running jobs, then stop."""
    doing = (
        "stopping now, with its running jobs"
        if at_once
        else "stopping: finishes its running jobs, then ends"
    )
    _tell_worker(store, lambda people: people.astop(name, now=at_once), doing)


@workers.command("scale")
@_NAME
@click.argument("slots", type=WholeNumber(1, 10_000), metavar="N")
@store_option
def scale_worker(name: str, slots: int, store: str) -> None:
    """Set the concurrency of a worker: N jobs at once."""
    _tell_worker(
        store, lambda people: people.ascale(name, concurrency=slots), f"{slots} jobs at once"
    )


def _tell_worker(
    url: str, order: Callable[[Workers], Awaitable[Sequence[WorkerInfo]]], doing: str
) -> None:
    """Send the order; print for each worker that it follows it, or that it is gone."""

    async def told(store: Store) -> list[WorkerView]:
        return [WorkerView.of(info) for info in await order(StoreNouns(store).workers)]

    for one in ask(url, told):
        click.echo(f"{one.name} ({one.id}): {_gone(one, View()) or doing}")


def _gone(worker: WorkerView, view: View) -> str:
    return f"gone, its lease expires {view.left(worker.lease_until)}" if worker.gone else ""


WORKERS: Listing[WorkerView] = Listing(
    columns={
        "NAME": "name",
        "ID": "id",
        "PID": "pid",
        "QUEUES": "queues",
        "RUNNING": lambda worker, _: f"{worker.running}/{worker.slots}",
        "HEARTBEAT": lambda worker, view: view.passed(worker.beat_at),
        "STATE": lambda worker, view: _gone(worker, view) or worker.order,
    },
    wide={
        "TASKS": lambda worker, _: ",".join(worker.tasks),
        "RESOURCES": lambda worker, _: (
            ",".join(f"{name}={amount}" for name, amount in worker.resources.items()) or NOTHING
        ),
        "VERSION": lambda worker, _: worker.version,
    },
    name=lambda worker: worker.name,
    nothing="no worker is running; start one: duly worker",
    colour=lambda worker: None if worker.order == "run" else "yellow",
)
