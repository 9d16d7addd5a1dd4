"""``duly limits``: cluster-wide concurrency and rate limits, as set by an operator."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from duly.cli.formats import NOTHING, Listing, NounGroup, View, list_options, show_list
from duly.cli.store import ask, store_option
from duly.errors import InvalidValue

if TYPE_CHECKING:
    from duly.app import Store
    from duly.app.typed_schedules import LaneInfo
    from duly.model.limit import Rate
    from duly.views.capacity import LimitView

NO_LIMIT = "none"
MOST_LISTED = 10_000
_NAME = click.argument("name", metavar="NAME")


@click.group(cls=NounGroup)
def limits() -> None:
    """List the limits that jobs have met, or say what counts for one.

    \b
      duly limits
      duly limits set mail --rate 100/m                       whatever code says
      duly limits set "crm:{customer_id}" --concurrency 2     for every customer
      duly limits set crm:17 --concurrency 5                  for this one
      duly limits reset crm:17                                what code says counts again

    What is said of a name counts for more than what is said of its template, and both for more than
    what code says.

    \b
    Exit codes: 0 ok, 2 something in the command line is wrong, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are


@limits.command("list")
@store_option
@list_options
def list_command(store: str, view: View) -> None:
    """List the limits that jobs have met, the last used first.

    \b
      duly limits
      duly limits -o wide         with the template that a name is made from
      duly limits --watch

    RUNNING is the number of jobs that hold it, WAITING the number of jobs that wait for it.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    from duly.views.capacity import limit_list

    show_list(store, view, limit_list, LIMITS)


@limits.command("set")
@_NAME
@click.option("--concurrency", metavar="N", help="Jobs in it at once, in all; none: no limit.")
@click.option("--rate", metavar="100/m", help="How often one may begin; none: no limit.")
@store_option
def set_command(*, name: str, concurrency: str | None, rate: str | None, store: str) -> None:
    """Say what counts for a limit from now on, by its name or its template.

    \b
      duly limits set mail --rate 100/m
      duly limits set "crm:{customer_id}" --concurrency 2
      duly limits set mail --rate none

    What is not said stays as it is.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if concurrency is None and rate is None:
        raise click.UsageError("say what to set: --concurrency, --rate, or both")

    async def done(there: "Store") -> "tuple[int | None, Rate | None]":
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
def reset(name: str, store: str) -> None:
    """Let what code says count again.

    \b
      duly limits reset crm:17
    """  # noqa: D301 - \b is click's mark for lines to be left as they are

    async def done(there: "Store") -> None:
        await there.limits.unset(name)
        _say_if_unmet(name, await there.limits.listed(limit=MOST_LISTED))

    ask(store, done)
    click.echo(f"reset  {name}")


LIMITS: "Listing[LimitView]" = Listing(
    headings=("LIMIT", "CONCURRENCY", "RATE", "RUNNING", "WAITING"),
    wide=("TEMPLATE",),
    row=lambda lane, _: (
        lane.name,
        _shown(lane.concurrency),
        _shown(lane.rate),
        str(lane.running),
        str(lane.waiting),
        lane.template,
    ),
    name=lambda lane: lane.name,
    nothing="no job has met a limit yet",
    colour=lambda lane: "yellow" if lane.waiting else None,
)


def _numbers(
    name: str, known: "Sequence[LaneInfo]", *, concurrency: str | None, rate: str | None
) -> "tuple[int | None, Rate | None]":
    """Return concurrency and rate: the given values, and the current ones for those not given."""
    from duly.model.limit import Limit

    found = [lane for lane in known if lane.name == name]
    found += [lane for lane in known if lane.template == name]
    at_once = found[0].concurrency if found else None
    often: Rate | str | None = found[0].rate if found else None
    if concurrency is not None:
        at_once = _count(concurrency)
    if rate is not None:
        often = None if rate == NO_LIMIT else rate
    if at_once is None and often is None:
        return None, None
    limit = Limit(name, concurrency=at_once, rate=often)
    return limit.concurrency, limit.rate


def _count(text: str) -> int | None:
    if text == NO_LIMIT:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidValue(f"--concurrency {text}: a whole number from 1, or none for no limit")
    return int(text)


def _say_if_unmet(name: str, known: "Sequence[LaneInfo]") -> None:
    names = {lane.name for lane in known} | {lane.template for lane in known}
    if name not in names:
        near = get_close_matches(name, sorted(names), n=1)
        meant = f'; did you mean "{near[0]}"?' if near else ""
        click.echo(f'note: no job has met a limit "{name}" yet{meant}', err=True)


def _shown(number: object) -> str:
    return NOTHING if number is None else str(number)
