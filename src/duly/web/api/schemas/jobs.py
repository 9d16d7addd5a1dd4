"""What is sent about jobs, and the short answers to it; jobs themselves are ``views.job``."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from duly.model.states import State
from duly.web.api.schemas.common import (
    Body,
    Duration,
    JobId,
    Limit,
    Number,
    Said,
    When,
    Words,
)

MOST_AT_ONCE = 10_000  # jobs of a batch
MOST_CHOSEN = 1_000  # jobs by their numbers, which are done one after the other

PriorityWord: TypeAlias = Literal["high", "normal", "low", "idle"]
Priority: TypeAlias = (
    Annotated[int, Meta(ge=-100, le=100, description="-100 to 100, higher is sooner; or a word.")]
    | PriorityWord
)
Arguments: TypeAlias = Annotated[
    dict[str, Any], Meta(description="The arguments of the task, by name.")
]
Chosen: TypeAlias = Annotated[list[JobId], Meta(max_length=MOST_CHOSEN)]


class Enqueue(Body, frozen=True):
    """A job to be run: which task, with what, when and how."""

    task: Annotated[str, Meta(min_length=1, description="The name of the task.")]
    args: Arguments = field(default_factory=dict)
    run_after: When | None = None
    queue: Annotated[str | None, Meta(description="Another one than the task says.")] = None
    priority: Priority | None = None
    key: Annotated[
        str | None,
        Meta(description="Names the promise: unique for the task among unfinished jobs."),
    ] = None
    if_exists: Annotated[
        Literal["replace", "keep", "error"],
        Meta(description="What to do if an unfinished job has the key."),
    ] = "replace"
    tenant: Annotated[str, Meta(description="Whose job it is.")] = ""
    start_within: Duration | None = None
    late: Annotated[
        Literal["skip", "run", "hurry"], Meta(description="What to do when that has passed.")
    ] = "skip"
    timeout: Duration | None = None
    attempts: (
        Annotated[int, Meta(ge=1, le=1_000, description="How often it is tried; the first counts.")]
        | None
    ) = None
    title: Annotated[str | None, Meta(description="What people call it.")] = None
    tags: list[str] = field(default_factory=list)


class EnqueueMany(Body, frozen=True):
    """Jobs to be run: all of them are enqueued, or none."""

    jobs: Annotated[list[Enqueue], Meta(min_length=1, max_length=MOST_AT_ONCE)]


class JobQuery(Body, frozen=True):
    """Which jobs, and how many."""

    filter: Words = ""
    after: Annotated[str | None, Meta(description="The `next` of the part before.")] = None
    limit: Limit = 100


class FilterQuery(Body, frozen=True):
    """Which jobs."""

    filter: Words = ""


class LogQuery(Body, frozen=True):
    """Which lines."""

    after: Annotated[Number, Meta(description="After the line of this number.")] = 0
    limit: Limit = 1_000


class PartQuery(Body, frozen=True):
    """Which parts."""

    after: Annotated[Number, Meta(description="After the part of this number.")] = 0
    limit: Limit = 100


class RetryJobs(Body, frozen=True):
    """The failed jobs to retry: some by their numbers, or all that match."""

    filter: Words = ""
    ids: Chosen = field(default_factory=list)
    first: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="So many, the oldest failures first.")]
        | None
    ) = None


class CancelJobs(Body, frozen=True):
    """The jobs to cancel: some by their numbers, or all that match and have not ended."""

    filter: Words | None = None
    ids: Chosen = field(default_factory=list)
    reason: str = ""


class RemoveJobs(Body, frozen=True):
    """The jobs to delete: some by their numbers, or all that match and have ended."""

    filter: Words | None = None
    ids: Chosen = field(default_factory=list)


class CancelReason(Body, frozen=True):
    """Why."""

    reason: str = ""


class RunAgain(Body, frozen=True):
    """Other arguments than the job has; without any, the same.

    Sent back as they were shown, the job's own values stay, secrets included. If anything is
    changed, what is shown as *** has to be typed again.
    """

    args: Arguments | None = None


class JobCount(Said, frozen=True):
    """How many match; `more`: at least so many."""

    count: int
    more: bool


class Enqueued(Said, frozen=True):
    """The numbers of the jobs, in the order of the request."""

    ids: list[int]


class EnqueuedOne(Said, frozen=True):
    """The number of the job."""

    id: int


class ChangedJobs(Said, frozen=True):
    """The jobs that were changed."""

    ids: list[int]
    count: int

    @classmethod
    def of(cls, numbers: "list[int]") -> "ChangedJobs":
        return cls(ids=numbers, count=len(numbers))


class CancelledJob(Said, frozen=True):
    """The state of the job: a running job is asked to stop, and may take a while."""

    id: int
    state: State
