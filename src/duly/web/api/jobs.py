"""Jobs over HTTP: enqueue, list, count, retry, cancel, delete.

A caller of one tenant sees, counts, changes and enqueues jobs of that tenant.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, field

from duly.app.calls_by_name import call_named, enqueued, run_again
from duly.errors import InvalidValue, NotFound, WrongState
from duly.model.job import JobRequest
from duly.model.job_filter import parse_filter
from duly.model.outcome import ReportAnswer
from duly.model.states import State
from duly.registry.option_values import is_rule
from duly.views import Listed
from duly.views.failures import FailureGroup
from duly.views.flow import FlowView, PartView, flow_detail, step_parts
from duly.views.job import (
    MOST_COUNTED,
    AttemptView,
    JobDetail,
    JobView,
    LogLineView,
    job_detail,
    job_list,
    job_log,
    remove_job,
)
from duly.views.why import WhyView
from duly.web.api.endpoint import (
    Body,
    Duration,
    JobId,
    Limit,
    Number,
    Router,
    Said,
    Words,
    described,
    once_of,
    when_in,
)
from duly.web.request import WebRequest

MOST_AT_ONCE = 10_000  # jobs of a batch
MOST_STEP_DIGITS = 9
MOST_CHOSEN = 1_000  # jobs by their numbers, which are done one after the other

PriorityWord: TypeAlias = Literal["high", "normal", "low", "idle"]
Priority: TypeAlias = (
    Annotated[int, described("-100 to 100 (higher runs sooner), or a word.", ge=-100, le=100)]
    | PriorityWord
)
Arguments: TypeAlias = Annotated[dict[str, Any], described("The arguments of the task, by name.")]
Chosen: TypeAlias = Annotated[list[JobId], Meta(max_length=MOST_CHOSEN)]


class Enqueue(Body, frozen=True):
    """A job to enqueue: its task, arguments and options."""

    task: Annotated[str, described("The name of the task.", min_length=1)]
    args: Arguments = field(default_factory=dict)
    run_after: Annotated[
        str | None, described("A time, a duration from now, as 2h, or a rule: its next time.")
    ] = None
    queue: Annotated[str | None, described("Overrides the queue of the task.")] = None
    priority: Priority | None = None
    key: Annotated[str | None, described("Unique key among the unfinished jobs of the task.")] = (
        None
    )
    if_exists: Annotated[
        Literal["replace", "keep", "error"],
        described("What to do if an unfinished job has the key."),
    ] = "replace"
    tenant: Annotated[str, described("Tenant of the job.")] = ""
    start_within: Duration | None = None
    late: Annotated[
        Literal["skip", "run", "hurry"], described("Policy for a job that did not start in time.")
    ] = "skip"
    timeout: Duration | None = None
    attempts: (
        Annotated[
            int, described("Maximum number of attempts, including the first.", ge=1, le=1_000)
        ]
        | None
    ) = None
    title: Annotated[str | None, described("A title for people.")] = None
    tags: list[str] = field(default_factory=list)


class EnqueueMany(Body, frozen=True):
    """Jobs to be run: all of them are enqueued, or none."""

    jobs: Annotated[list[Enqueue], Meta(min_length=1, max_length=MOST_AT_ONCE)]


class JobQuery(Body, frozen=True):
    """A page of jobs."""

    filter: Words = ""
    after: Annotated[str | None, described("The `next` of the previous page.")] = None
    limit: Limit = 100


class FilterQuery(Body, frozen=True):
    """A filter of jobs."""

    filter: Words = ""


class LogQuery(Body, frozen=True):
    """A page of log lines."""

    after: Annotated[Number, described("After the line with this number.")] = 0
    limit: Limit = 1_000


class PartQuery(Body, frozen=True):
    """A page of parts."""

    after: Annotated[Number, described("After the part with this number.")] = 0
    limit: Limit = 100


class RetryJobs(Body, frozen=True):
    """The failed jobs to retry: some by their numbers, or all that match."""

    filter: Words = ""
    ids: Chosen = field(default_factory=list)
    first: (
        Annotated[
            int, described("Maximum number of jobs, oldest failures first.", ge=1, le=1_000_000)
        ]
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
    """The reason."""

    reason: str = ""


class OutcomeReport(Body, frozen=True):
    """The result of a job that was handed off, or its error."""

    result: Any = None
    error: Annotated[
        str | None,
        described(
            "null: it succeeded. A failure is retried by the job's retry policy.",
            examples=["ConnectionError: nobody answers"],
        ),
    ] = None
    traceback: str = ""
    retry: Annotated[bool | str, described("false: no retry; a duration: retry after it.")] = True
    message: Annotated[
        str | None,
        described(
            "The id of the message: the failure of an earlier try, and the outcome of "
            "a message of another database, are ignored.",
            examples=["duly-4711-1-64e7b1a0c5d40-1f2e3d4c"],
        ),
    ] = None


class RunAgain(Body, frozen=True):
    """Other arguments than the job has; without any, the same.

    Sent back as they were shown, the job's own values stay, secrets included. If anything is
    changed, what is shown as *** has to be typed again.
    """

    args: Arguments | None = None


class JobCount(Said, frozen=True):
    """The number of matching jobs; with `more`, at least that many."""

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
    def numbered(cls, numbers: Sequence[int]) -> "ChangedJobs":
        return cls(ids=list(numbers), count=len(numbers))


class CancelledJob(Said, frozen=True):
    """The state of the job: a running job is asked to stop, and may take a while."""

    id: int
    state: State


def _many(done: str) -> Any:  # noqa: ANN401 - a sentence of what was done
    return lambda found: f"{done} {found.count:,} {'job' if found.count == 1 else 'jobs'}."


JOBS: Final = Router("jobs", tenants=True)


@JOBS("GET /jobs", "viewer")
async def jobs(request: WebRequest, query: JobQuery) -> Listed[JobView]:
    """List matching jobs: unfinished ones first, then the last that ended.

    A page may be short or empty and not the last: follow `next` until it is null. `searched_to` is
    how far back the search went.
    """
    return await request.app.ask_own(
        job_list,
        parse_filter(query.filter),
        after=query.after,
        limit=query.limit,
    )


@JOBS("GET /jobs/count", "viewer")
async def count(request: WebRequest, query: FilterQuery) -> JobCount:
    """Count matching jobs."""
    found = await request.app.jobs.acount(query.filter, at_most=MOST_COUNTED)
    return JobCount(count=found, more=found >= MOST_COUNTED)


@JOBS("GET /jobs/failures", "viewer")
async def failures(request: WebRequest, query: FilterQuery) -> Listed[FailureGroup]:
    """Failed jobs grouped by task and error, the most frequent first."""
    return Listed(items=list(await request.app.jobs.afailures(query.filter)))


@JOBS(
    "POST /jobs",
    "operator",
    status=201,
    once=True,
    say=lambda found: f"Job {found.id} is enqueued.",
    example={"task": "send", "args": {"to": "ada"}, "run_after": "5m"},
)
async def enqueue(request: WebRequest, body: Enqueue) -> EnqueuedOne:
    """Enqueue a job.

    If the web process knows the task, arguments are checked against its signature.
    """
    [number] = await _enqueued(request, [body], body)
    return EnqueuedOne(id=number)


@JOBS(
    "POST /jobs/batch",
    "operator",
    status=201,
    once=True,
    say=lambda found: f"{len(found.ids):,} jobs are enqueued.",
    example={"jobs": [{"task": "send", "args": {"to": "ada"}}]},
)
async def enqueue_many(request: WebRequest, body: EnqueueMany) -> Enqueued:
    """Enqueue many jobs: all of them, or none."""
    return Enqueued(ids=await _enqueued(request, body.jobs, body))


@JOBS(
    "POST /jobs/retry",
    "operator",
    say=_many("Retried"),
    example={"filter": "state:failed queue:mail", "first": 5},
)
async def retry_many(request: WebRequest, body: RetryJobs) -> ChangedJobs:
    """Retry failed jobs."""
    if body.ids:
        return await _each(body.ids[: body.first], partial(_retry, request))
    return ChangedJobs.numbered(await request.app.jobs.aretry(body.filter, first=body.first))


@JOBS(
    "POST /jobs/cancel",
    "operator",
    say=_many("Cancelled"),
    example={"filter": "queue:mail state:ready", "reason": "sent by hand"},
)
async def cancel_many(request: WebRequest, body: CancelJobs) -> ChangedJobs:
    """Cancel jobs that have not ended."""
    if body.ids:
        return await _each(body.ids, partial(_cancel, request, reason=body.reason))
    words = _meant(body.filter)
    return ChangedJobs.numbered(await request.app.jobs.acancel(words, reason=body.reason))


@JOBS(
    "POST /jobs/remove",
    "operator",
    say=_many("Deleted"),
    example={"filter": "state:failed task:send"},
)
async def remove_many(request: WebRequest, body: RemoveJobs) -> ChangedJobs:
    """Delete jobs that have ended."""
    if body.ids:
        return await _each(body.ids, partial(request.app.ask_own, remove_job))
    return ChangedJobs.numbered(await request.app.jobs.aremove(_meant(body.filter)))


async def _enqueued(
    request: WebRequest, wanted: Sequence[Enqueue], body: msgspec.Struct
) -> list[int]:
    calls = [_call(request, one) for one in wanted]
    once = once_of(request, body)
    return await request.app.ask_own(enqueued, calls, once=once)


def _call(request: WebRequest, body: Enqueue) -> JobRequest:
    words = msgspec.structs.asdict(body)
    if not body.run_after or not is_rule(body.run_after):  # a rule stands for its next moment
        words["run_after"] = when_in("run_after", body.run_after)
    task, args = words.pop("task"), words.pop("args")
    return call_named(request.app.registry, task, args, **words, submitter=request.user.name)


def _meant(words: str | None) -> str:
    """Require an explicit filter for a change of many jobs."""
    if words is None:
        raise InvalidValue('choose the jobs: ids, or a filter; "" is for all jobs')
    return words


async def _each(numbers: Iterable[int], act: Callable[[int], Awaitable[object]]) -> ChangedJobs:
    """Act on jobs by their numbers; return the jobs for which it was possible."""
    done = []
    for number in numbers:
        with suppress(NotFound, WrongState):
            if await act(number) is not False:
                done.append(number)
    return ChangedJobs.numbered(done)


@JOBS("GET /jobs/{id}", "viewer")
async def job(request: WebRequest, number: int) -> JobDetail:
    """Show a job."""
    return await _detail(request, number)


@JOBS("GET /jobs/{id}/why", "viewer")
async def why(request: WebRequest, number: int) -> WhyView:
    """Explain the state of a job."""
    return (await _detail(request, number)).why


@JOBS("GET /jobs/{id}/attempts", "viewer")
async def attempts(request: WebRequest, number: int) -> Listed[AttemptView]:
    """List the attempts of a job that failed or were lost."""
    return Listed(items=list((await _detail(request, number)).attempts))


@JOBS("GET /jobs/{id}/logs", "viewer")
async def logs(request: WebRequest, number: int, query: LogQuery) -> Listed[LogLineView]:
    """Its log.

    To follow it, pass the number of the last line as `after`.
    """
    found = await request.app.ask_own(
        job_log,
        number,
        after=query.after,
        limit=query.limit,
    )
    after = str(found.last) if found.is_full else None
    return Listed(items=list(found.lines), next=after)


@JOBS(
    "POST /jobs/{id}/retry",
    "operator",
    say=lambda found: (
        f"Job {found.id} is retried."
        if found.flow is None
        else f"Flow {found.id} continues from its failed steps."
    ),
)
async def retry(request: WebRequest, number: int) -> JobDetail:
    """Retry a failed job."""
    await _retry(request, number)
    return await _detail(request, number)


@JOBS(
    "POST /jobs/{id}/cancel",
    "operator",
    say=lambda found: (
        f"Job {found.id} is cancelled."
        if found.state == "cancelled"
        else f"Job {found.id} is asked to stop."
    ),
    example={"reason": "sent by hand"},
)
async def cancel(request: WebRequest, number: int, body: CancelReason) -> CancelledJob:
    """Cancel a job; a running job is asked to stop."""
    found = await request.app.jobs.aget(number)
    if not await found.acancel(reason=body.reason):
        raise WrongState(f"job {number} has ended: it is {found.state}")
    return CancelledJob(id=number, state=(await found.arefresh()).state)


@JOBS("POST /jobs/{id}/outcome", "operator", example={"result": {"sent": 3}})
async def outcome(request: WebRequest, number: int, body: OutcomeReport) -> ReportAnswer:
    """Report the outcome of a job that was handed to another system.

    A second report, and one of a job that has ended, changes nothing: `counted` is false then.
    """
    return await request.app.jobs.areport(
        number,
        result=body.result,
        error=body.error,
        traceback=body.traceback,
        retry=body.retry,
        message=body.message,
    )


@JOBS(
    "POST /jobs/{id}/run-again",
    "operator",
    status=201,
    say=lambda found: f"Job {found.id} is enqueued.",
    example={"args": {"to": "bob"}},
)
async def again(request: WebRequest, number: int, body: RunAgain) -> EnqueuedOne:
    """Enqueue a copy of a job, with the same arguments or others."""
    made = await request.app.ask_own(
        run_again,
        request.app.registry,
        number,
        args=body.args,
    )
    return EnqueuedOne(id=made)


@JOBS("DELETE /jobs/{id}", "operator", say=lambda _: "Deleted.")
async def remove(request: WebRequest, number: int) -> None:
    """Delete a job that has ended, with its attempts and its log."""
    await request.app.ask_own(remove_job, number)


@JOBS("GET /jobs/{id}/flow", "viewer")
async def flow(request: WebRequest, number: int) -> FlowView:
    """A flow and its steps.

    A flow is a job with steps, which are jobs too; list them with `filter=flow:4711`.
    """
    return await request.app.ask_own(flow_detail, number)


@JOBS("GET /jobs/{id}/flow/{step}/parts", "viewer")
async def parts(request: WebRequest, number: int, step: str, query: PartQuery) -> Listed[PartView]:
    """The jobs of a step."""
    is_number = step.isascii() and step.isdigit() and len(step) <= MOST_STEP_DIGITS
    place = int(step) if is_number else 0
    return await request.app.ask_own(
        step_parts, number, place, after=query.after, limit=query.limit
    )


async def _detail(request: WebRequest, number: int) -> JobDetail:
    return await request.app.ask_own(job_detail, number)


async def _retry(request: WebRequest, number: int) -> None:
    await (await request.app.jobs.aget(number)).aretry()


async def _cancel(request: WebRequest, number: int, *, reason: str) -> bool:
    return await (await request.app.jobs.aget(number)).acancel(reason=reason)
