"""Jobs as they are sent and answered."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from duly.model.job import Attempt
from duly.model.journal import LogLine, ProgressNote
from duly.policy.redaction import hidden, hidden_call, redacted
from duly.views.failures import FailureGroup
from duly.views.job_facts import JobFacts, JobStory
from duly.web.api.schemas.common import (
    Body,
    Duration,
    JobId,
    Limit,
    Number,
    Said,
    When,
    Words,
    length_text,
)
from duly.web.api.schemas.flows import FlowProgress

MOST_AT_ONCE = 10_000  # jobs of a batch
MOST_CHOSEN = 1_000  # jobs by their numbers, which are done one after the other

StateName: TypeAlias = Literal[
    "scheduled", "blocked", "ready", "running", "succeeded", "failed", "cancelled", "expired"
]
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

    after: Annotated[Number, Meta(description="Behind the line of this number.")] = 0
    limit: Limit = 1_000


class Retry(Body, frozen=True):
    """Which failed jobs get another chance: some by their numbers, or all that match."""

    filter: Words = ""
    ids: Chosen = field(default_factory=list)
    first: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="So many, the oldest failures first.")]
        | None
    ) = None


class Cancel(Body, frozen=True):
    """Which jobs are called off: some by their numbers, or all that match and have not ended."""

    filter: Words | None = None
    ids: Chosen = field(default_factory=list)
    reason: str = ""


class Remove(Body, frozen=True):
    """Which jobs are forgotten: some by their numbers, or all that match and have ended."""

    filter: Words | None = None
    ids: Chosen = field(default_factory=list)


class Reason(Body, frozen=True):
    """Why."""

    reason: str = ""


class RunAgain(Body, frozen=True):
    """Other arguments than the job has; without any, the same.

    Sent back as they were shown, the job's own values stay, secrets included. If anything is
    changed, what is shown as *** has to be typed again.
    """

    args: Arguments | None = None


class Job(Said, frozen=True):
    """A job, and where it stands."""

    id: JobId
    state: StateName
    task: str
    title: str
    queue: str
    priority: int
    tenant: str
    submitter: str
    key: str | None
    tags: list[str]
    schedule: Annotated[str | None, Meta(description="The schedule that it is of.")]
    attempt: Annotated[int, Meta(description="How often it was begun.")]
    worker: Annotated[str | None, Meta(description="Who runs it, or ran it last.")]
    created_at: datetime
    due_at: Annotated[datetime, Meta(description="The moment that the work is for.")]
    ready_at: Annotated[datetime, Meta(description="From when it may run.")]
    deadline: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    reason: Annotated[str, Meta(description="Why it waits, or how it ended.")]
    parent: Annotated[
        int | None, Meta(description="The flow that it is a step of, or the job it came from.")
    ]
    step: Annotated[int | None, Meta(description="Its place in the flow, from 1.")]
    part: Annotated[int | None, Meta(description="Which of the jobs of that step, from 1.")]
    flow: Annotated[FlowProgress | None, Meta(description="How far it is, if it is a flow.")]

    @classmethod
    def of(cls, facts: JobFacts) -> "Job":
        return cls(**_line(facts))


class Progress(Said, frozen=True):
    """How far a job says it is."""

    percent: float
    message: str
    at: datetime


class JobAttempt(Said, frozen=True):
    """One execution of a job that did not end it well."""

    number: int
    worker: str | None
    started_at: datetime
    ended_at: datetime
    took: str
    outcome: Annotated[str, Meta(description="raised, timed out, lost, …")]
    reason: str
    error: str | None

    @classmethod
    def of(cls, one: Attempt, names: dict[int, str]) -> "JobAttempt":
        return cls(
            number=one.number,
            worker=None if one.worker is None else names.get(one.worker, str(one.worker)),
            started_at=one.started_at,
            ended_at=one.ended_at,
            took=length_text(one.ended_at - one.started_at) or "0s",
            outcome=one.outcome,
            reason=redacted(one.reason),
            error=None if one.error is None else redacted(one.error),
        )


class WholeJob(Job, frozen=True):
    """Everything about a job; what is named like a secret is hidden."""

    args: Any
    limits: list[str]
    needs: dict[str, int]
    attempts: list[JobAttempt]
    progress: Progress | None
    result: Any
    error: str | None

    @classmethod
    def told(cls, story: JobStory) -> "WholeJob":
        job = story.facts.job
        return cls(
            **_line(story.facts),
            args=hidden_call(job.task, _read(job.args)),
            limits=[lane.name for lane in job.limits],
            needs=dict(job.needs),
            attempts=[JobAttempt.of(one, dict(story.names)) for one in story.attempts],
            progress=_progress(story.note),
            result=hidden(_read(job.result)),
            error=None if job.error is None else redacted(job.error),
        )


class Line(Said, frozen=True):
    """A line that a job has said."""

    number: Annotated[int, Meta(description="They rise from 1, through all its attempts.")]
    at: datetime
    level: str
    text: str
    attempt: int

    @classmethod
    def of(cls, line: LogLine) -> "Line":
        return cls(
            number=line.seq,
            at=line.at,
            level=line.level,
            text=redacted(line.text),
            attempt=line.attempt,
        )


class Failures(Said, frozen=True):
    """Jobs of a task that failed alike."""

    task: str
    error: str
    jobs: int
    first_at: datetime
    last_at: datetime
    job_ids: Annotated[list[int], Meta(description="The newest few.")]
    filter: Annotated[str, Meta(description="Words that find about these.")]

    @classmethod
    def of(cls, group: FailureGroup) -> "Failures":
        return cls(
            task=group.task,
            error=group.error,
            jobs=group.jobs,
            first_at=group.first_at,
            last_at=group.last_at,
            job_ids=list(group.job_ids),
            filter=group.filter,
        )


class Count(Said, frozen=True):
    """How many match; `more`: at least so many."""

    count: int
    more: bool


class Enqueued(Said, frozen=True):
    """The numbers of the jobs, in the order in which they were asked for."""

    ids: list[int]


class EnqueuedOne(Said, frozen=True):
    """The number of the job."""

    id: int


class Changed(Said, frozen=True):
    """Which jobs it was done to."""

    ids: list[int]
    count: int

    @classmethod
    def of(cls, numbers: "list[int]") -> "Changed":
        return cls(ids=numbers, count=len(numbers))


class Cancelled(Said, frozen=True):
    """The state it is in: a job that runs is asked to end, and may take its time."""

    id: int
    state: StateName


def _line(facts: JobFacts) -> dict[str, Any]:
    job = facts.job
    return {
        "id": job.id,
        "state": job.state.value,
        "task": job.task,
        "title": redacted(job.title),
        "queue": job.queue,
        "priority": job.priority,
        "tenant": job.tenant,
        "submitter": job.submitter,
        "key": job.key,
        "tags": list(job.tags),
        "schedule": facts.schedule,
        "attempt": job.attempt,
        "worker": facts.worker,
        "created_at": job.created_at,
        "due_at": job.due_at,
        "ready_at": job.ready_at,
        "deadline": job.deadline,
        "started_at": job.claimed_at,
        "ended_at": job.ended_at,
        "reason": redacted(job.reason),
        "parent": job.parent,
        "step": None if job.step is None else job.step + 1,
        "part": None if job.part is None else job.part + 1,
        "flow": None if facts.flow is None else FlowProgress.of(facts.flow),
    }


def _progress(note: ProgressNote | None) -> Progress | None:
    if note is None:
        return None
    return Progress(percent=note.percent, message=redacted(note.message), at=note.at)


def _read(text: str | None) -> Any:  # noqa: ANN401 - JSON is any of its types
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
