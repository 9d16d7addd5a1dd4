"""Jobs over HTTP: enqueue, list, count, retry, cancel, delete.

A caller of one tenant sees, counts, changes and enqueues jobs of that tenant.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from duly.app.calls_by_name import call_named, enqueued
from duly.errors import InvalidValue, NotFound, WrongState
from duly.model.job import JobRequest
from duly.model.job_filter import parse_filter
from duly.views import Listed
from duly.views.failures import FailureGroup
from duly.views.job import MOST_COUNTED, JobView, job_list, remove_job
from duly.web.api.endpoint import Endpoint
from duly.web.api.schemas.common import when_in
from duly.web.api.schemas.jobs import (
    CancelJobs,
    ChangedJobs,
    Enqueue,
    Enqueued,
    EnqueuedOne,
    EnqueueMany,
    FilterQuery,
    JobCount,
    JobQuery,
    RemoveJobs,
    RetryJobs,
)
from duly.web.request import WebRequest


async def jobs(request: WebRequest, query: JobQuery) -> Listed[JobView]:
    return await request.app.ask(
        job_list,
        parse_filter(query.filter),
        after=query.after,
        limit=query.limit,
        tenant=request.user.tenant,
    )


async def count(request: WebRequest, query: FilterQuery) -> JobCount:
    found = await request.app.jobs.acount(query.filter, at_most=MOST_COUNTED)
    return JobCount(count=found, more=found >= MOST_COUNTED)


async def failures(request: WebRequest, query: FilterQuery) -> Listed[FailureGroup]:
    return Listed(items=list(await request.app.jobs.afailures(query.filter)))


async def enqueue(request: WebRequest, body: Enqueue) -> EnqueuedOne:
    [number] = await _enqueued(request, [body], body)
    return EnqueuedOne(id=number)


async def enqueue_many(request: WebRequest, body: EnqueueMany) -> Enqueued:
    return Enqueued(ids=await _enqueued(request, body.jobs, body))


async def retry_many(request: WebRequest, body: RetryJobs) -> ChangedJobs:
    if not body.ids:
        return ChangedJobs.of(list(await request.app.jobs.aretry(body.filter, first=body.first)))
    return ChangedJobs.of([one for one in body.ids[: body.first] if await _retried(request, one)])


async def cancel_many(request: WebRequest, body: CancelJobs) -> ChangedJobs:
    if body.ids:
        done = [one for one in body.ids if await _cancelled(request, one, body.reason)]
        return ChangedJobs.of(done)
    words = _meant(body.filter)
    return ChangedJobs.of(list(await request.app.jobs.acancel(words, reason=body.reason)))


async def remove_many(request: WebRequest, body: RemoveJobs) -> ChangedJobs:
    if body.ids:
        return ChangedJobs.of([one for one in body.ids if await _removed(request, one)])
    return ChangedJobs.of(list(await request.app.jobs.aremove(_meant(body.filter))))


async def _enqueued(
    request: WebRequest, wanted: Sequence[Enqueue], body: msgspec.Struct
) -> list[int]:
    calls = [_call(request, one) for one in wanted]
    once = None
    if request.once is not None:
        once = request.once, sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    return await request.app.ask(enqueued, calls, tenant=request.user.tenant, once=once)


def _call(request: WebRequest, body: Enqueue) -> JobRequest:
    return call_named(
        request.app.registry,
        body.task,
        body.args,
        run_after=when_in("run_after", body.run_after),
        queue=body.queue,
        priority=body.priority,
        key=body.key,
        if_exists=body.if_exists,
        tenant=body.tenant,
        start_within=body.start_within,
        late=body.late,
        timeout=body.timeout,
        attempts=body.attempts,
        title=body.title,
        tags=tuple(body.tags),
        submitter=request.user.name,
    )


def _meant(words: str | None) -> str:
    """What is done to many is said, if it is to all of them."""
    if words is None:
        raise InvalidValue('say which: ids, or a filter; "" is for all of them')
    return words


async def _retried(request: WebRequest, number: int) -> bool:
    try:
        await (await request.app.jobs.aget(number)).aretry()
    except (NotFound, WrongState):
        return False
    return True


async def _cancelled(request: WebRequest, number: int, reason: str) -> bool:
    try:
        return await (await request.app.jobs.aget(number)).acancel(reason=reason)
    except NotFound:
        return False


async def _removed(request: WebRequest, number: int) -> bool:
    try:
        await request.app.ask(remove_job, number, tenant=request.user.tenant)
    except (NotFound, WrongState):
        return False
    return True


def _many(done: str) -> Any:  # noqa: ANN401 - a sentence of what was done
    return lambda found: f"{done} {found.count:,} {'job' if found.count == 1 else 'jobs'}."


JOBS: Final = (
    Endpoint(
        method="GET",
        path="/jobs",
        role="viewer",
        tenants=True,
        run=jobs,
        summary="Jobs that match: unfinished ones first, then those that ended last",
        tag="jobs",
        body=JobQuery,
        answer=Listed[JobView],
        about="A part may be short, or empty, and not the last: `next` says so, and `searched_to` "
        "how far back was looked.",
    ),
    Endpoint(
        method="GET",
        path="/jobs/count",
        role="viewer",
        tenants=True,
        run=count,
        summary="How many jobs match",
        tag="jobs",
        body=FilterQuery,
        answer=JobCount,
    ),
    Endpoint(
        method="GET",
        path="/jobs/failures",
        role="viewer",
        tenants=True,
        run=failures,
        summary="Failed jobs grouped by task and error, the most frequent first",
        tag="jobs",
        body=FilterQuery,
        answer=Listed[FailureGroup],
    ),
    Endpoint(
        method="POST",
        path="/jobs",
        role="operator",
        tenants=True,
        run=enqueue,
        summary="Enqueue a job",
        tag="jobs",
        body=Enqueue,
        answer=EnqueuedOne,
        status=201,
        once=True,
        say=lambda found: f"Job {found.id} is enqueued.",
        about="Where the web process knows the task, arguments are checked by its signature.",
        example={"task": "send", "args": {"to": "ada"}, "run_after": "5m"},
    ),
    Endpoint(
        method="POST",
        path="/jobs/batch",
        role="operator",
        tenants=True,
        run=enqueue_many,
        summary="Enqueue many jobs: all of them, or none",
        tag="jobs",
        body=EnqueueMany,
        answer=Enqueued,
        status=201,
        once=True,
        say=lambda found: f"{len(found.ids):,} jobs are enqueued.",
        example={"jobs": [{"task": "send", "args": {"to": "ada"}}]},
    ),
    Endpoint(
        method="POST",
        path="/jobs/retry",
        role="operator",
        tenants=True,
        run=retry_many,
        summary="Retry failed jobs",
        tag="jobs",
        body=RetryJobs,
        answer=ChangedJobs,
        say=_many("Retried"),
        example={"filter": "state:failed queue:mail", "first": 5},
    ),
    Endpoint(
        method="POST",
        path="/jobs/cancel",
        role="operator",
        tenants=True,
        run=cancel_many,
        summary="Cancel jobs that have not ended",
        tag="jobs",
        body=CancelJobs,
        answer=ChangedJobs,
        say=_many("Cancelled"),
        example={"filter": "queue:mail state:ready", "reason": "sent by hand"},
    ),
    Endpoint(
        method="POST",
        path="/jobs/remove",
        role="operator",
        tenants=True,
        run=remove_many,
        summary="Delete jobs that have ended",
        tag="jobs",
        body=RemoveJobs,
        answer=ChangedJobs,
        say=_many("Deleted"),
        example={"filter": "state:failed task:send"},
    ),
)
