"""``duly jobs``: list and show jobs, group failures; retry, cancel and remove."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from shlex import quote
from typing import Final, TypeVar

import click

from duly.app import Store
from duly.cli.app_and_store import MISSING, NEEDS_YOU, ask, output_option, store_option
from duly.cli.formats import (
    FilteredNounGroup,
    Listing,
    View,
    list_options,
    show_list,
    utc_option,
    view_json,
)
from duly.cli.job_text import JOBS, job_text
from duly.cli.options import WholeNumber, page_options
from duly.cli.output import is_confirmed
from duly.clock import sleep
from duly.errors import DulyError, InvalidValue, NotFound, WrongState
from duly.model.flow import FlowProgress
from duly.model.job import StoredJob
from duly.model.job_filter import Filter, filter_of
from duly.model.states import State
from duly.policy.redaction import one_line
from duly.views import Listed
from duly.views.failures import FailureGroup, failures
from duly.views.job import STATES, Action, JobView, job_detail, job_list, job_log

T = TypeVar("T")

MOST_COUNTED: Final = 10_000
ASKED: Final = "asked to stop; in a thread it may run to its end"

_WHICH = click.argument("words", metavar="ID… | FILTER…", nargs=-1)
_YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@click.command("retry")
@_WHICH
@click.option("--first", type=WholeNumber(1), metavar="N", help="Retry at most N, the oldest.")
@_YES
@store_option
def retry_command(words: tuple[str, ...], first: int | None, *, yes: bool, store: str) -> None:
    """Retry failed jobs: some by their numbers, or all that match.

    \b
      duly jobs retry 1002 1007                  a flow continues from its failed steps
      duly jobs retry error:timeout --first 5    five of them, to see whether it is fixed
      duly jobs retry state:failed --yes         all of them
    """
    if numbers := numbers_in(words):
        do_to_each(store, numbers[:first], retried_one, going_on_from)
        return
    wanted = among(filter_of(words), "retry", "retried")

    async def retried(opened: Store) -> Sequence[int]:
        return await opened.jobs.retry_found(wanted, first=first)

    do_to_all(store, wanted, retried, ("failed job", "retry", "retried"), first=first, yes=yes)


@click.command("cancel")
@_WHICH
@click.option("--reason", default="", help="The reason, shown with each job.")
@_YES
@store_option
def cancel_command(words: tuple[str, ...], reason: str, *, yes: bool, store: str) -> None:
    """Cancel jobs: some by their numbers, or all that match and have not ended.

    Waiting jobs are ended. Running jobs are asked to stop, and may take a while.

    \b
      duly jobs cancel 1002
      duly jobs cancel queue:mail state:ready --yes --reason "sent by hand"
    """
    if numbers := numbers_in(words):
        do_to_each(
            store,
            numbers,
            lambda opened, one: opened.jobs.cancel(one, reason=reason),
            cancelled_state,
        )
        return
    wanted = among(filter_of(words), "cancel", "cancelled")
    running = 0

    async def cancelled(opened: Store) -> Sequence[int]:
        nonlocal running
        done = await opened.jobs.cancel_found(wanted, reason=reason)
        running = await still_running(opened, wanted)
        return done

    do_to_all(store, wanted, cancelled, ("unfinished job", "cancel", "cancelled"), yes=yes)
    if running:
        click.echo(f"{running:,} of them: {ASKED}", err=True)


@click.command("remove")
@_WHICH
@_YES
@store_option
def remove_command(words: tuple[str, ...], *, yes: bool, store: str) -> None:
    """Delete jobs that have ended: some by their numbers, or all that match.

    Their arguments, results, attempts and logs are deleted. Unfinished jobs stay: cancel them
    first. Old jobs are deleted by themselves, see duly config.

    \b
      duly jobs remove 1002
      duly jobs remove state:failed task:send before:2026-03-05T00:00Z
      duly jobs remove tenant:acme --yes
    """
    if numbers := numbers_in(words):
        do_to_each(store, numbers, lambda opened, one: opened.jobs.remove(one))
        return
    wanted = among(filter_of(words), "remove", "removed: cancel the others first")

    async def removed(opened: Store) -> Sequence[int]:
        return await opened.jobs.remove_found(wanted)

    do_to_all(store, wanted, removed, ("ended job", "remove", "removed"), yes=yes)


def among(wanted: Filter, action: Action, done: str) -> Filter:
    """Return the filter, narrowed to jobs for which the action is possible."""
    possible = STATES[action]
    meant = tuple(state for state in wanted.states or possible if state in possible)
    if not meant:
        can = ", ".join(possible)
        raise InvalidValue(f"state:{','.join(wanted.states)}: only {can} jobs can be {done}")
    return replace(wanted, states=meant)


def numbers_in(words: Sequence[str]) -> list[int]:
    """Return the jobs named by number; none if the words are a filter."""
    if not words:
        raise click.UsageError("choose the jobs: ids, or a filter, as task:send since:2h")
    named = [word for word in words if is_number(word)]
    if named and len(named) < len(words):
        raise click.UsageError(f"either ids ({', '.join(named)}) or a filter, not both")
    return [int(word) for word in named]


def is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def do_to_each(
    url: str,
    numbers: Sequence[int],
    act: Callable[[Store, int], Awaitable[T]],
    told: Callable[[T], str] | None = None,
) -> None:
    """Call ``act`` for each job; if it fails for one, print the error and go on with the others.

    ``told`` returns a remark about a job; empty for none.
    """

    async def acted(store: Store) -> list[DulyError]:
        errors: list[DulyError] = []
        for number in dict.fromkeys(numbers):
            try:
                done = await act(store, number)
                click.echo(number)
                said = told(done) if told is not None else ""
                if said:
                    click.echo(f"job {number}: {said}", err=True)
            except (NotFound, WrongState) as error:
                click.echo(f"Error: {error}", err=True)
                errors.append(error)
        return errors

    errors = ask(url, acted)
    if errors:
        missing = all(isinstance(error, NotFound) for error in errors)
        raise SystemExit(MISSING if missing else NEEDS_YOU)


def do_to_all(
    url: str,
    wanted: Filter,
    act: Callable[[Store], Awaitable[Sequence[int]]],
    words: tuple[str, str, str],
    *,
    first: int | None = None,
    yes: bool,
) -> None:
    """Count the matching jobs, ask for confirmation, act on all of them and print their numbers.

    ``words`` are the noun, the verb and its participle.
    """
    noun, verb, done = words

    async def acted(store: Store) -> Sequence[int]:
        there = await store.jobs.count(wanted, at_most=MOST_COUNTED)
        return await act(store) if is_agreed(there, noun, verb, first=first, yes=yes) else ()

    numbers = ask(url, acted)
    for number in numbers:
        click.echo(number)
    click.echo(f"{done} {counted(len(numbers), 'job')}", err=True)


async def retried_one(store: Store, number: int) -> tuple[StoredJob, FlowProgress | None]:
    """Retry a job; return it and the progress of its flow, if it is or belongs to one."""
    job = await store.jobs.retry(number)
    flow = job.id if job.step is None else job.parent or job.id
    return job, (await store.jobs.flow_progress([flow])).get(flow)


def going_on_from(done: tuple[StoredJob, FlowProgress | None]) -> str:
    job, flow = done
    if flow is None:
        return ""
    which = "the flow" if job.step is None else f"its flow, job {job.parent},"
    return f"{which} continues from {counted(flow.failed, 'failed step')}"


def cancelled_state(state: State) -> str:
    return ASKED if state.value == "running" else state.value


async def still_running(store: Store, wanted: Filter) -> int:
    """Count the matching jobs that are still running: their cancellation is only requested."""
    if State.RUNNING not in wanted.states:
        return 0
    return await store.jobs.count(replace(wanted, states=(State.RUNNING,)), at_most=MOST_COUNTED)


def is_agreed(count: int, noun: str, verb: str, *, first: int | None = None, yes: bool) -> bool:
    """Ask to confirm an action on ``count`` jobs; with --yes, only print the number."""
    if not count:
        click.echo(f"no {noun} matches: nothing to {verb}", err=True)
        return False
    few = f"the first {first} of " if first is not None and first < count else ""
    question = f"{verb} {few}{counted(count, noun)}"
    if yes:
        click.echo(question, err=True)
        return True
    return is_confirmed(question)


def counted(count: int, noun: str) -> str:
    many = f"{count:,} or more" if count >= MOST_COUNTED else f"{count:,}"
    return f"{many} {noun}{'s' * (count != 1)}"


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
    Exit codes: 0 success, 1 something needs attention, 2 invalid usage, 3 no such job, 5 the
    database cannot be reached.
    """


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
    """
    if words and all(map(is_number, words)):
        raise click.UsageError(
            f"did you mean duly jobs show {words[0]}? To search for the text: text:{words[0]}"
        )
    wanted = filter_of(words)

    async def found(opened: Store) -> Listed[JobView]:
        return await job_list(opened, wanted, after=after, limit=limit, most_pages=MOST_PAGES)

    page = show_list(store, view, found, JOBS)
    if page.next is not None:
        click.echo(_continuation(page, is_full=len(page.items) == limit, view=view), err=True)


def _continuation(page: Listed[JobView], *, is_full: bool, view: View) -> str:
    """Return how to continue a list that ended before the last matching job."""
    if is_full:
        return f"there are more: continue with --after {page.next}, or raise --limit"
    to = page.searched_to
    back = f"back to {view.moment(to)}" if isinstance(to, datetime) else "so far"
    return f"there are many: searched {back}, continue with --after {page.next}"


@jobs.command("show")
@_NUMBER
@store_option
@output_option
@utc_option
def show_command(number: int, store: str, output: str, *, utc: bool) -> None:
    """Show everything about a job: arguments (secrets hidden), attempts, errors, its result.

    Of a flow, its steps: their state, how long each took, and what it waits for.
    """
    found = ask(store, lambda opened: job_detail(opened, number))
    click.echo(view_json(found) if output == "json" else job_text(found, View(utc=utc)))


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
    """
    wanted = filter_of(words)
    groups = show_list(store, view, lambda opened: failures(opened, wanted), FAILURES)
    if groups and view.output in ("table", "wide"):
        these = quote(groups[0].filter)
        click.echo(f"the first group: duly jobs {these}", err=True)
        click.echo(f"once fixed:     duly jobs retry {these} --first 5", err=True)


FAILURES: Listing[FailureGroup] = Listing(
    columns={
        "JOBS": lambda group, _: f"{group.jobs:,}",
        "TASK": "task",
        "LAST": lambda group, view: view.passed(group.last_at),
        "NEWEST": "job_id",
        "ERROR": lambda group, _: group.error,
    },
    wide={"FIRST": "first_at", "FILTER": "filter"},
    name=lambda group: str(group.job_id),
    nothing="no failed job matches",
)


async def _print_log(store: Store, number: int, *, follow: bool, view: View) -> None:
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
