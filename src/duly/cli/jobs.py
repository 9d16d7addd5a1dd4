"""``duly jobs``: list jobs, show one, print its log, group failures."""

from collections.abc import Sequence
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Final

import click

from duly.cli.formats import (
    FilteredNounGroup,
    Listing,
    View,
    list_options,
    show_list,
    utc_option,
    view_as_dict,
)
from duly.cli.job_changes import (
    cancel_command,
    filter_from,
    is_number,
    remove_command,
    retry_command,
)
from duly.cli.job_text import JOBS, job_text
from duly.cli.options import WholeNumber, page_options
from duly.cli.store import ask, output_option, store_option
from duly.clock import sleep
from duly.policy.printable import json_text, one_line

if TYPE_CHECKING:
    from duly.app import Store
    from duly.views.failures import FailureGroup
    from duly.views.job import JobDetail, JobView

MOST_LISTED: Final = 10_000
MOST_PAGES: Final = 50  # searched at most if few jobs match: a million jobs, a few seconds
SECONDS_BETWEEN_LOOKS: Final = 0.25  # polling interval of a followed log

_NUMBER = click.argument("number", metavar="ID", type=WholeNumber(1))


@click.group(cls=FilteredNounGroup)
def jobs() -> None:
    """List jobs, show one, retry, cancel or delete it.

    FILTER is one or more of these words, all of which must match, and text that is searched for in
    the task, title, key, reason and error:

    \b
      state:failed,running  queue:mail  task:send*  tenant:acme  tag:nightly  key:x  schedule:NAME
      error~timeout  since:2h  before:2026-03-05T02:00Z  flow:4711  text:"any: text"

    \b
      duly jobs                              the newest
      duly jobs state:failed since:2h        recent failures
      duly jobs failures since:1d            failures by task and error, the most frequent first
      duly jobs show 1002                    everything about one job; of a flow, its steps
      duly jobs flow:1002 state:failed       the failed jobs of a flow
      duly jobs logs 1002 -f                 follow its log
      duly jobs retry state:failed queue:mail --first 5
      duly jobs cancel task:send tenant:acme --reason "sent by hand"
      duly jobs remove tenant:acme

    \b
    Exit codes: 0 ok, 1 something needs attention, 2 something in the command line is wrong,
    3 there is no such job, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are


@jobs.command("list")
@click.argument("words", metavar="[FILTER]…", nargs=-1)
@page_options(MOST_LISTED)
@store_option
@list_options
def list_command(
    words: tuple[str, ...], limit: int, after: str | None, *, store: str, view: View
) -> None:
    """List jobs: unfinished ones first, by falling number; then ended ones, the last to end first.

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

    async def found(opened: "Store") -> "list[JobView]":
        from duly.views.job import job_list

        nonlocal on
        page = await job_list(opened, wanted, after=after, limit=limit, most_pages=MOST_PAGES)
        if page.next is not None:
            is_full = len(page.items) == limit
            on = _continuation(page.next, page.searched_to, is_full=is_full, view=view)
        return page.items

    show_list(store, view, found, JOBS)
    if on is not None:
        click.echo(on, err=True)


def _continuation(after: str, searched_to: object, *, is_full: bool, view: View) -> str:
    """Return how to continue a list that ended before the last matching job."""
    if is_full:
        return f"there are more: go on with --after {after}, or say --limit"
    back = f"back to {view.moment(searched_to)}" if isinstance(searched_to, datetime) else "so far"
    return f"there are many: searched {back}, go on with --after {after}"


@jobs.command("show")
@_NUMBER
@store_option
@output_option
@utc_option
def show_command(number: int, store: str, output: str, *, utc: bool) -> None:
    """Show everything about a job: arguments (secrets hidden), attempts, errors, its result.

    Of a flow, its steps: their state, how long each took, and what it waits for.
    """

    async def looked(opened: "Store") -> "JobDetail":
        from duly.views.job import job_detail

        return await job_detail(opened, number)

    found = ask(store, looked)
    if output == "json":
        click.echo(json_text(view_as_dict(found)))
    else:
        click.echo(job_text(found, View(utc=utc)))


@jobs.command("logs")
@_NUMBER
@click.option(
    "-f", "--follow", is_flag=True, help="Follow the log until the job has ended, or Ctrl-C."
)
@store_option
@utc_option
def logs_command(number: int, store: str, *, follow: bool, utc: bool) -> None:
    """Print the log of a job, of all its attempts."""
    try:
        ask(store, lambda opened: _print_log(opened, number, follow=follow, view=View(utc=utc)))
    except KeyboardInterrupt:
        click.echo(err=True)


@jobs.command("failures")
@click.argument("words", metavar="[FILTER]…", nargs=-1)
@store_option
@list_options
def failures_command(words: tuple[str, ...], store: str, view: View) -> None:
    """Group failed jobs by task and error, the most frequent first.

    \b
      duly jobs failures
      duly jobs failures queue:mail since:2h
      duly jobs failures -o wide              with the filter that finds each group

    Errors that differ by a number, an identifier or a quoted value are one group; ERROR and NEWEST
    are those of the newest job. No more than 2,000 are counted, among the newest 10,000 failures.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    wanted = filter_from(words)
    groups: Sequence[FailureGroup] = ()

    async def found(opened: "Store") -> "Sequence[FailureGroup]":
        from duly.views.failures import failures

        nonlocal groups
        groups = await failures(opened, wanted)
        return groups

    show_list(store, view, found, FAILURES)
    if groups and view.output in ("table", "wide"):
        these = quote(groups[0].filter)
        click.echo(f"the first group: duly jobs {these}", err=True)
        click.echo(f"once fixed:     duly jobs retry {these} --first 5", err=True)


def _row(group: "FailureGroup", view: View) -> tuple[str, ...]:
    return (
        f"{group.jobs:,}",
        group.task,
        view.passed(group.last_at),
        str(group.job_id),
        group.error,
        view.moment(group.first_at),
        group.filter,
    )


FAILURES: "Listing[FailureGroup]" = Listing(
    headings=("JOBS", "TASK", "LAST", "NEWEST", "ERROR"),
    wide=("FIRST", "FILTER"),
    row=_row,
    name=lambda group: str(group.job_id),
    nothing="no failed job matches",
)


async def _print_log(store: "Store", number: int, *, follow: bool, view: View) -> None:
    from duly.views.job import job_log

    last = 0
    while True:
        page = await job_log(store, number, after=last)
        for line in page.lines:
            click.echo(f"{view.moment(line.at)} {line.level:<7} {one_line(line.text, tabs=True)}")
        last = page.last
        if page.over or (not page.is_full and not follow):
            break
        if not page.is_full:
            await sleep(SECONDS_BETWEEN_LOOKS)
    if not last:
        click.echo(f"job {number} has no log output", err=True)


for _verb in (retry_command, cancel_command, remove_command):
    jobs.add_command(_verb)
