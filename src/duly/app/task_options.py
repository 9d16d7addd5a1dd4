"""The options of tasks, flows and single jobs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, TypedDict

from duly.app.job import Job
from duly.errors import InvalidValue
from duly.model.job import IfExists
from duly.model.limit import Limit
from duly.model.policies import Late
from duly.policy.retry import Retry
from duly.registry.definition import Executor
from duly.registry.option_values import Duration, Priority, When


class Using(TypedDict, total=False):
    """The options of one job. The task decides about options that are not given."""

    run_after: When | None
    queue: str | None
    priority: Priority | None
    key: str | None
    if_exists: IfExists
    tenant: str | None
    start_within: Duration | None
    late: Late
    retry: Retry | None
    timeout: Duration | None
    title: str | None
    tags: Sequence[str]
    idempotency_key: str | None
    connection: object | None


class CallbackTask(Protocol):
    """A task that takes the id of the job that ended."""

    def enqueue(self, job_id: int, /) -> Job[Any]: ...


class TaskOptions(TypedDict, total=False):
    """The options of a task, for all its jobs."""

    name: str | None
    aliases: Sequence[str]
    title: str | None
    queue: str
    priority: Priority
    retry: Retry | None
    timeout: Duration | None
    grace: Duration
    executor: Executor | None
    memory: str | None
    limits: Sequence[Limit]
    needs: Mapping[str, int]
    keep_result: Duration | None
    on_success: CallbackTask | str | None
    on_failure: CallbackTask | str | None
    on_cancelled: CallbackTask | str | None


class FlowOptions(TypedDict, total=False):
    """The options of a flow, for all its jobs. ``timeout`` is for the whole flow."""

    name: str | None
    aliases: Sequence[str]
    title: str | None
    queue: str
    priority: Priority
    timeout: Duration | None
    keep_result: Duration | None
    on_success: CallbackTask | str | None
    on_failure: CallbackTask | str | None
    on_cancelled: CallbackTask | str | None


class UnknownWord(InvalidValue, TypeError):
    """An unknown option; also a TypeError, as Python raises for unknown keywords."""


def refuse_unknown(choices: Iterable[str]) -> None:
    _refuse_unknown(choices, Using.__annotations__, who="using()")


def refuse_unknown_options(options: Iterable[str]) -> None:
    _refuse_unknown(options, (*TaskOptions.__annotations__, "takes_context"), who="a task")


def refuse_unknown_of_flow(options: Iterable[str]) -> None:
    _refuse_unknown(options, FlowOptions.__annotations__, who="a flow")


def _refuse_unknown(words: Iterable[str], known: Collection[str], *, who: str) -> None:
    for word in words:
        if word not in known:
            near = get_close_matches(word, known, n=1, cutoff=0.5)
            meant = f"did you mean {near[0]}=?" if near else f"there are {', '.join(known)}"
            raise UnknownWord(f"{who} has no option {word}=; {meant}")
