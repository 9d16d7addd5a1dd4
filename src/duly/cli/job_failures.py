"""``duly jobs failures``: what failed alike."""

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Final

import click

from duly.cli.formats import Listing, View, iso, list_options, show_list
from duly.cli.job_choice import filter_from
from duly.cli.store import store_option

if TYPE_CHECKING:
    from duly.app import Store
    from duly.views.failures import FailureGroup


@click.command("failures")
@click.argument("words", metavar="[FILTER]…", nargs=-1)
@store_option
@list_options
def failures_command(words: tuple[str, ...], store: str, view: View) -> None:
    """Say what failed alike: failed jobs by task and error, the most frequent first.

    \b
      duly jobs failures
      duly jobs failures queue:mail since:2h
      duly jobs failures -o wide              with the words that find each kind

    Errors that differ by a number, an identifier or a quoted value are one kind; ERROR and NEWEST
    are those of the newest job. No more than 2,000 are counted, among the newest 10,000 failures.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    wanted = filter_from(words)
    groups: Sequence[FailureGroup] = ()

    async def found(opened: "Store") -> "Sequence[FailureGroup]":
        from duly.views.failures import failures

        nonlocal groups
        groups = await failures(opened, wanted)
        return groups

    show_list(store, view, found, KINDS)
    if groups and view.output in ("table", "wide"):
        these = quote(groups[0].filter)
        click.echo(f"the first kind: duly jobs {these}", err=True)
        click.echo(f"once mended:    duly jobs retry {these} --first 5", err=True)


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


def _plain(group: "FailureGroup") -> dict[str, object]:
    return {
        "task": group.task,
        "error": group.error,
        "jobs": group.jobs,
        "first_at": iso(group.first_at),
        "last_at": iso(group.last_at),
        "job_id": group.job_id,
        "job_ids": list(group.job_ids),
        "filter": group.filter,
    }


KINDS: Final = Listing(
    headings=("JOBS", "TASK", "LAST", "NEWEST", "ERROR"),
    wide=("FIRST", "FILTER"),
    row=_row,
    plain=_plain,
    name=lambda group: str(group.job_id),
    nothing="no failed job matches",
)
