"""``duly jobs retry``, ``cancel`` and ``remove``: jobs by their numbers, or all that match."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import click

from duly.cli.options import WholeNumber
from duly.cli.store import MISSING, NEEDS_YOU, ask, refuse, store_option
from duly.errors import DulyError, InvalidValue, NotFound, WrongState

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.flow import FlowProgress
    from duly.model.job import StoredJob
    from duly.model.job_filter import Filter
    from duly.model.states import State

T = TypeVar("T")

MOST_COUNTED: Final = 10_000
ASKED: Final = "asked to stop while it runs; in a thread it may go on to its end"
LIVING: Final = ("scheduled", "blocked", "ready", "running")
ENDED: Final = ("succeeded", "failed", "cancelled", "expired")

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
      duly jobs retry 1002 1007                  a flow goes on from its failed steps
      duly jobs retry error:timeout --first 5    five of them, to see whether it is fixed
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
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if numbers := numbers_in(words):
        do_to_each(
            store,
            numbers,
            lambda opened, one: opened.jobs.cancel(one, reason=reason),
            cancelled_state,
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


def filter_from(words: Sequence[str]) -> "Filter":
    from duly.model.job_filter import filter_of

    try:
        return filter_of(words)
    except DulyError as error:
        refuse(error)


def among(wanted: "Filter", states: Sequence[str], done: str) -> "Filter":
    """Return the filter, narrowed to jobs in one of these states."""
    from duly.model.states import State

    possible = tuple(State(name) for name in states)
    meant = tuple(state for state in wanted.states or possible if state in possible)
    if not meant:
        can = ", ".join(states)
        refuse(InvalidValue(f"state:{','.join(wanted.states)}: only {can} jobs can be {done}"))
    return replace(wanted, states=meant)


def numbers_in(words: Sequence[str]) -> list[int]:
    """Return the jobs named by number; none if the words are a filter."""
    if not words:
        raise click.UsageError("say which: their numbers, or a filter, as task:send since:2h")
    named = [word for word in words if is_number(word)]
    if named and len(named) < len(words):
        raise click.UsageError(f"either numbers ({', '.join(named)}) or a filter, not both")
    return [int(word) for word in named]


def is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def do_to_each(
    url: str,
    numbers: Sequence[int],
    act: "Callable[[Store, int], Awaitable[T]]",
    told: Callable[[T], str] | None = None,
) -> None:
    """Call ``act`` for each job; if it fails for one, print the error and go on with the others.

    ``told`` returns a remark about a job; empty for none.
    """

    async def acted(store: "Store") -> list[DulyError]:
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


async def retried_one(store: "Store", number: int) -> "tuple[StoredJob, FlowProgress | None]":
    """Retry a job; return it and the progress of its flow, if it is or belongs to one."""
    job = await store.jobs.retry(number)
    flow = job.id if job.step is None else job.parent or job.id
    return job, (await store.jobs.flow_progress([flow])).get(flow)


def going_on_from(done: "tuple[StoredJob, FlowProgress | None]") -> str:
    job, flow = done
    if flow is None:
        return ""
    which = "the flow" if job.step is None else f"its flow, job {job.parent},"
    return f"{which} goes on from {counted(flow.failed, 'failed step')}"


def cancelled_state(state: "State") -> str:
    return ASKED if state.value == "running" else state.value


async def still_running(store: "Store", wanted: "Filter") -> int:
    """Count the matching jobs that are still running: their cancellation is only requested."""
    from duly.model.states import State

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
    if not sys.stdin.isatty():
        raise click.UsageError(f"this would {question}: say --yes")
    return click.confirm(f"{question}?", err=True)


def counted(count: int, noun: str) -> str:
    many = f"{count:,} or more" if count >= MOST_COUNTED else f"{count:,}"
    return f"{many} {noun}{'s' * (count != 1)}"


def tell(numbers: Sequence[int], done: str) -> None:
    for number in numbers:
        click.echo(number)
    click.echo(f"{done} {counted(len(numbers), 'job')}", err=True)
