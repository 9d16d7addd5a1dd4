"""Jobs over HTTP: enqueue them, look at them, give them another chance, call them off.

Somebody who is of one tenant sees, counts, changes and enqueues what is that tenant's.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from duly.app.calls_by_name import call_named, enqueued
from duly.errors import InvalidValue, NotFound, WrongState
from duly.model.job import Call
from duly.views.job_facts import facts_page, forget_job
from duly.views.job_list import MOST_COUNTED
from duly.web.api.endpoint import Endpoint
from duly.web.api.schemas.common import Listed, when_in
from duly.web.api.schemas.jobs import (
    Cancel,
    Changed,
    Count,
    Enqueue,
    Enqueued,
    EnqueuedOne,
    EnqueueMany,
    Failures,
    FilterQuery,
    Job,
    JobQuery,
    Remove,
    Retry,
)
from duly.web.request import WebRequest


async def jobs(request: WebRequest, query: JobQuery) -> Listed[Job]:
    found = await request.app.ask(
        facts_page, query.filter, after=query.after, limit=query.limit, tenant=request.user.tenant
    )
    return Listed(
        items=[Job.of(one) for one in found.jobs], next=found.after, searched_to=found.searched_to
    )


async def count(request: WebRequest, query: FilterQuery) -> Count:
    found = await request.app.jobs.acount(query.filter, at_most=MOST_COUNTED)
    return Count(count=found, more=found >= MOST_COUNTED)


async def failures(request: WebRequest, query: FilterQuery) -> Listed[Failures]:
    groups = await request.app.jobs.afailures(query.filter)
    return Listed(items=[Failures.of(group) for group in groups])


async def enqueue(request: WebRequest, body: Enqueue) -> EnqueuedOne:
    [number] = await _enqueued(request, [body], body)
    return EnqueuedOne(id=number)


async def enqueue_many(request: WebRequest, body: EnqueueMany) -> Enqueued:
    return Enqueued(ids=await _enqueued(request, body.jobs, body))


async def retry_many(request: WebRequest, body: Retry) -> Changed:
    if not body.ids:
        return Changed.of(list(await request.app.jobs.aretry(body.filter, first=body.first)))
    return Changed.of([one for one in body.ids[: body.first] if await _retried(request, one)])


async def cancel_many(request: WebRequest, body: Cancel) -> Changed:
    if body.ids:
        done = [one for one in body.ids if await _cancelled(request, one, body.reason)]
        return Changed.of(done)
    words = _meant(body.filter)
    return Changed.of(list(await request.app.jobs.acancel(words, reason=body.reason)))


async def remove_many(request: WebRequest, body: Remove) -> Changed:
    if body.ids:
        return Changed.of([one for one in body.ids if await _removed(request, one)])
    return Changed.of(list(await request.app.jobs.aremove(_meant(body.filter))))


async def _enqueued(
    request: WebRequest, wanted: Sequence[Enqueue], body: msgspec.Struct
) -> list[int]:
    calls = [_call(request, one) for one in wanted]
    once = None
    if request.once is not None:
        once = request.once, sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    return await request.app.ask(enqueued, calls, tenant=request.user.tenant, once=once)


def _call(request: WebRequest, body: Enqueue) -> Call:
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
        await request.app.ask(forget_job, number, tenant=request.user.tenant)
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
        summary="Jobs that match: what lives first, then the last to end",
        tag="jobs",
        body=JobQuery,
        answer=Listed[Job],
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
        answer=Count,
    ),
    Endpoint(
        method="GET",
        path="/jobs/failures",
        role="viewer",
        tenants=True,
        run=failures,
        summary="What failed alike, the most frequent first",
        tag="jobs",
        body=FilterQuery,
        answer=Listed[Failures],
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
        summary="Give failed jobs another chance",
        tag="jobs",
        body=Retry,
        answer=Changed,
        say=_many("Retried"),
        example={"filter": "state:failed queue:mail", "first": 5},
    ),
    Endpoint(
        method="POST",
        path="/jobs/cancel",
        role="operator",
        tenants=True,
        run=cancel_many,
        summary="Call jobs off that have not ended",
        tag="jobs",
        body=Cancel,
        answer=Changed,
        say=_many("Cancelled"),
        example={"filter": "queue:mail state:ready", "reason": "sent by hand"},
    ),
    Endpoint(
        method="POST",
        path="/jobs/remove",
        role="operator",
        tenants=True,
        run=remove_many,
        summary="Forget jobs that have ended",
        tag="jobs",
        body=Remove,
        answer=Changed,
        say=_many("Deleted"),
        example={"filter": "state:failed task:send"},
    ),
)
