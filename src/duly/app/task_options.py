"""The options of tasks, flows and single jobs."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypedDict

from duly.app.job import Job
from duly.model.job import IfExists
from duly.model.limit import Limit
from duly.model.policies import Late
from duly.policy.retry import Retry
from duly.registry.definition import Engine, Executor
from duly.registry.option_values import Duration, Priority, Start


class JobOptions(TypedDict, total=False):
    """The options of one job. The task decides about options that are not given."""

    run_after: Start | None
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


class NumberCallback(Protocol):
    """A task that takes the id of the job that ended."""

    def enqueue(self, job_id: int, /) -> Job[Any]: ...


class JobCallback(Protocol):
    """A task that takes the job that ended."""

    def enqueue(self, job: Job[Any], /) -> Job[Any]: ...


CallbackTask: TypeAlias = NumberCallback | JobCallback


class FlowOptions(TypedDict, total=False):
    """The options that flows and tasks share. The ``timeout`` of a flow is for the whole flow."""

    name: str | None
    aliases: Sequence[str]
    title: str | None
    queue: str
    priority: Priority
    timeout: Duration | None
    keep_result: Duration | None
    keep_failed: Duration | None
    on_success: CallbackTask | str | None
    on_failure: CallbackTask | str | None
    on_cancelled: CallbackTask | str | None


class TaskOptions(FlowOptions, total=False):
    """The options of a task, for all its jobs."""

    retry: Retry | None
    grace: Duration
    executor: Executor | None
    engine: Engine | None
    memory: str | None
    limits: Sequence[Limit]
    needs: Mapping[str, int]
