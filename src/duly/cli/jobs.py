"""``duly jobs``: what is to be done, is being done and was done; and another chance, or none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from duly.cli.formats import (
    FilteredNounGroup,
    View,
    list_options,
    show_list,
    utc_option,
)
from duly.cli.job_choice import (
    ASKED,
    MOST_COUNTED,
    among,
    called_off,
    do_to_each,
    filter_from,
    going_on_from,
    is_agreed,
    is_number,
    numbers_in,
    retried_one,
    still_running,
    tell,
)
from duly.cli.job_failures import failures_command
from duly.cli.job_json import plain
from duly.cli.job_list import LISTING, going_on, seen_by
from duly.cli.job_log import print_log
from duly.cli.job_page import Seen, page
from duly.cli.options import WholeNumber
from duly.cli.store import ask, output_option, store_option
from duly.policy.printable import json_text

if TYPE_CHECKING:
    from duly.app import Store

MOST_LISTED: Final = 10_000
MOST_PAGES: Final = (
    50  # of those that look at many jobs and find few: a million jobs, a few seconds
)
LIVING: Final = ("scheduled", "blocked", "ready", "running")
ENDED: Final = ("succeeded", "failed", "cancelled", "expired")

_NUMBER = click.argument("number", metavar="ID", type=WholeNumber(1))
_WHICH = click.argument("words", metavar="ID… | FILTER…", nargs=-1)
_YES = click.option("--yes", is_flag=True, help="Do not ask whether all of them are meant.")


@click.group(cls=FilteredNounGroup)
def jobs() -> None:
    """List jobs, look at one, give it another chance, call it off or forget it.

    FILTER is one or more of these words, all of which must fit, and text that is looked for in the
    task, title, key, reason and error:

    \b
      state:failed,running  queue:mail  task:send*  tenant:acme  tag:nightly  key:x  schedule:NAME
      error~timeout  since:2h  before:2026-03-05T02:00Z  flow:4711  text:"any: text"

    \b
      duly jobs                              the newest
      duly jobs state:failed since:2h        what failed lately
      duly jobs failures since:1d            the same by task and error, the most frequent first
      duly jobs show 1002                    everything about one; of a flow, its steps
      duly jobs flow:1002 state:failed       what failed of a flow
      duly jobs logs 1002 -f                 what it says, while it says it
      duly jobs retry state:failed queue:mail --first 5
      duly jobs cancel task:send tenant:acme --reason "sent by hand"
      duly jobs remove tenant:acme

    \b
    Exit codes: 0 ok, 1 something needs you, 2 something in the command line is wrong,
    3 there is no such job, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are


@jobs.command("list")
@click.argument("words", metavar="[FILTER]…", nargs=-1)
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(1, MOST_LISTED),
    default=50,
    show_default=True,
    help="How many to show.",
)
@click.option("--after", metavar="CURSOR", help="Go on where a list said that it ended.")
@store_option
@list_options
def list_command(
    words: tuple[str, ...], limit: int, after: str | None, *, store: str, view: View
) -> None:
    """List jobs: what has not ended, the highest number first; then the last to end first.

    \b
      duly jobs list 'task:send*' error~timeout since:2h
      duly jobs list state:succeeded -n 500 -o jsonl
      duly jobs list --after e.1794793167405965.1002
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if words and all(map(is_number, words)):
        raise click.UsageError(
            f"did you mean duly jobs show {words[0]}? As a text: text:{words[0]}"
        )
    wanted = filter_from(words)
    on: str | None = None

    async def found(opened: "Store") -> list[Seen]:
        from duly.app.jobs import walked

        nonlocal on
        page = await walked(opened, wanted, after=after, limit=limit, most_pages=MOST_PAGES)
        if page.after is not None:
            is_full = len(page.jobs) == limit
            on = going_on(page.after, page.searched_to, is_full=is_full, view=view)
        return await seen_by(opened, page.jobs)

    show_list(store, view, found, LISTING)
    if on is not None:
        click.echo(on, err=True)


@jobs.command("show")
@_NUMBER
@store_option
@output_option
@utc_option
def show_command(number: int, store: str, output: str, *, utc: bool) -> None:
    """Show everything about a job: arguments (secrets hidden), attempts, errors, its result.

    Of a flow, its steps: what each has come to, how long it took, and what it waits for.
    """
    view = View(utc=utc)

    async def looked(opened: "Store") -> Seen:
        from duly.views.flow_page import flow_seen, lineage_of

        [seen] = await seen_by(opened, [await opened.jobs.get(number)])
        return replace(
            seen,
            attempts=await opened.jobs.attempts(number),
            names={info.id: info.name for info in await opened.work.workers()},
            note=await opened.journal.note(number),
            flow=await flow_seen(opened, number, now=view.now),
            lineage=await lineage_of(opened, seen.job),
        )

    seen = ask(store, looked)
    if output == "json":
        click.echo(json_text(plain(seen, whole=True)))
    else:
        click.echo(page(seen, view))


@jobs.command("logs")
@_NUMBER
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, or Ctrl-C.")
@store_option
@utc_option
def logs_command(number: int, store: str, *, follow: bool, utc: bool) -> None:
    """Print what a job has said, in all its attempts."""
    try:
        ask(store, lambda opened: print_log(opened, number, follow=follow, view=View(utc=utc)))
    except KeyboardInterrupt:
        click.echo(err=True)


@jobs.command("retry")
@_WHICH
@click.option("--first", type=WholeNumber(1), metavar="N", help="Only so many, the oldest.")
@_YES
@store_option
def retry_command(words: tuple[str, ...], first: int | None, *, yes: bool, store: str) -> None:
    """Give failed jobs another chance: some by their numbers, or all that match.

    \b
      duly jobs retry 1002 1007                  a flow goes on from its failed steps
      duly jobs retry error:timeout --first 5    five of them, to see whether it is mended
      duly jobs retry state:failed --yes         all of them
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if numbers := numbers_in(words):
        do_to_each(store, numbers[:first], retried_one, going_on_from)
        return
    wanted = among(filter_from(words), ["failed"], "retried")

    async def retried(opened: "Store") -> Sequence[int]:
        there = await opened.jobs.count(wanted, at_most=MOST_COUNTED)
        if not is_agreed(there, "failed job", "retry", first=first, yes=yes):
            return ()
        return await opened.jobs.retry_found(wanted, first=first)

    tell(ask(store, retried), "retried")


@jobs.command("cancel")
@_WHICH
@click.option("--reason", default="", help="Why, for whoever wonders.")
@_YES
@store_option
def cancel_command(words: tuple[str, ...], reason: str, *, yes: bool, store: str) -> None:
    """Call jobs off: some by their numbers, or all that match and have not ended.

    What waits is ended. What runs is asked to end, and may take its time.

    \b
      duly jobs cancel 1002
      duly jobs cancel queue:mail state:ready --yes --reason "sent by hand"
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if numbers := numbers_in(words):
        do_to_each(
            store, numbers, lambda opened, one: opened.jobs.cancel(one, reason=reason), called_off
        )
        return
    wanted = among(filter_from(words), LIVING, "cancelled")

    running = 0

    async def cancelled(opened: "Store") -> Sequence[int]:
        nonlocal running
        there = await opened.jobs.count(wanted, at_most=MOST_COUNTED)
        if not is_agreed(there, "unfinished job", "cancel", yes=yes):
            return ()
        done = await opened.jobs.cancel_found(wanted, reason=reason)
        running = await still_running(opened, wanted)
        return done

    tell(ask(store, cancelled), "cancelled")
    if running:
        click.echo(f"{running:,} of them: {ASKED}", err=True)


@jobs.command("remove")
@_WHICH
@_YES
@store_option
def remove_command(words: tuple[str, ...], *, yes: bool, store: str) -> None:
    """Forget jobs that have ended: some by their numbers, or all that match.

    Their arguments, results, attempts and logs are gone for good. What has not ended stays: cancel
    it first. Old ones go by themselves, see duly config.

    \b
      duly jobs remove 1002
      duly jobs remove state:failed task:send before:2026-03-05T00:00Z
      duly jobs remove tenant:acme --yes
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if numbers := numbers_in(words):
        do_to_each(store, numbers, lambda opened, one: opened.jobs.remove(one))
        return
    wanted = among(filter_from(words), ENDED, "removed: cancel the others first")

    async def removed(opened: "Store") -> Sequence[int]:
        there = await opened.jobs.count(wanted, at_most=MOST_COUNTED)
        if not is_agreed(there, "ended job", "remove", yes=yes):
            return ()
        return await opened.jobs.remove_found(wanted)

    tell(ask(store, removed), "removed")


jobs.add_command(failures_command)
