"""Which jobs somebody means, by number or by what they have in common; and whether all of them."""

import getpass
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import click

from duly.cli.store import MISSING, NEEDS_YOU, ask, refuse
from duly.errors import DulyError, InvalidValue, NotFound, WrongState

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.flow import FlowProgress
    from duly.model.job import Job
    from duly.model.job_filter import Filter
    from duly.model.states import State

T = TypeVar("T")

MOST_COUNTED: Final = 10_000
ASKED: Final = "asked to stop while it runs; in a thread it may go on to its end"


def filter_from(words: Sequence[str]) -> "Filter":
    from duly.model.job_filter import filter_of

    try:
        return filter_of(words)
    except DulyError as error:
        refuse(error)


def among(wanted: "Filter", states: Sequence[str], done: str) -> "Filter":
    """The same, of jobs in one of these states."""
    from duly.model.states import State

    possible = tuple(State(name) for name in states)
    meant = tuple(state for state in wanted.states or possible if state in possible)
    if not meant:
        can = ", ".join(states)
        refuse(InvalidValue(f"state:{','.join(wanted.states)}: only {can} jobs can be {done}"))
    return replace(wanted, states=meant)


def numbers_in(words: Sequence[str]) -> list[int]:
    """The jobs that are named by their numbers; none: the words are a filter."""
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
    """Do it to each of them; what cannot be done to one is said, and the others go on.

    ``told`` says what became of each, if there is something to say.
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


async def retried_one(store: "Store", number: int) -> "tuple[Job, FlowProgress | None]":
    """The job, and how far its flow is, if it is one or a step of one."""
    job = await store.jobs.retry(number)
    flow = job.id if job.step is None else job.parent or job.id
    return job, (await store.jobs.flow_progress([flow])).get(flow)


def going_on_from(done: "tuple[Job, FlowProgress | None]") -> str:
    job, flow = done
    if flow is None:
        return ""
    which = "the flow" if job.step is None else f"its flow, job {job.parent},"
    return f"{which} goes on from {counted(flow.failed, 'failed step')}"


def called_off(state: "State") -> str:
    return ASKED if state.value == "running" else state.value


async def still_running(store: "Store", wanted: "Filter") -> int:
    """How many were only asked: what they do about it takes its time."""
    from duly.model.states import State

    if State.RUNNING not in wanted.states:
        return 0
    return await store.jobs.count(replace(wanted, states=(State.RUNNING,)), at_most=MOST_COUNTED)


def is_agreed(count: int, noun: str, verb: str, *, first: int | None = None, yes: bool) -> bool:
    """Say how many it is about, and ask whether all are meant, unless that was said."""
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


def who() -> str:
    """Who sits here, for whoever wonders later."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""  # a user without a name, as containers have


def counted(count: int, noun: str) -> str:
    many = f"{count:,} or more" if count >= MOST_COUNTED else f"{count:,}"
    return f"{many} {noun}{'s' * (count != 1)}"


def tell(numbers: Sequence[int], done: str) -> None:
    for number in numbers:
        click.echo(number)
    click.echo(f"{done} {counted(len(numbers), 'job')}", err=True)
