"""A context for testing the plain function of a task: no job, no worker, no store."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from duly.errors import InvalidValue
from duly.model.job import StoredJob
from duly.model.payload import Json
from duly.model.policies import check_moment
from duly.model.states import State
from duly.policy.retry import Retry
from duly.registry.context import Context, entered


@dataclass(slots=True)
class Rehearsal:
    """The progress that the function has reported."""

    told: list[tuple[float, str, Json | None]] = field(default_factory=list)
    stop: str | None = None  # set it, and the function sees that it is cancelled

    def cancelled(self) -> str | None:
        return self.stop

    def progress(self, percent: float, message: str, meta: Json | None) -> None:
        self.told.append((percent, message, meta))

    def guard(self) -> None:
        """Do nothing: there is no worker that could die."""

    def transaction(self, context: Context) -> object:
        raise InvalidValue(f"{context.job.task} is rehearsed: there is no job to complete")


@contextmanager
def context(
    *, due_at: datetime, attempt: int = 1, task: str = "rehearsal", retry: Retry | None = None
) -> Iterator[Rehearsal]:
    """Enter a context in which ``current()`` works as in a job."""
    check_moment("due_at", due_at)
    job = StoredJob(
        id=0,
        task=task,
        state=State.RUNNING,
        created_at=due_at,
        due_at=due_at,
        ready_at=due_at,
        attempt=attempt,
    )
    rehearsal = Rehearsal()
    with entered(Context(job, retry or Retry(), rehearsal)):
        yield rehearsal
