"""One job over HTTP: all about it, another chance, its end, the same once more."""

from typing import Final

from duly.app.calls_by_name import run_again
from duly.errors import NotFound, WrongState
from duly.views.job_facts import forget_job, job_lines, job_story, why_own_job
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.common import Listed, Why
from duly.web.api.schemas.jobs import (
    Cancelled,
    EnqueuedOne,
    JobAttempt,
    Line,
    LogQuery,
    Reason,
    RunAgain,
    WholeJob,
)
from duly.web.request import WebRequest

MOST_DIGITS: Final = 18  # of the number of a job


async def job(request: WebRequest, _: Nothing) -> WholeJob:
    return await _whole(request, number_of(request))


async def why(request: WebRequest, _: Nothing) -> Why:
    found = await request.app.ask(why_own_job, number_of(request), tenant=request.user.tenant)
    return Why.of(found)


async def attempts(request: WebRequest, _: Nothing) -> Listed[JobAttempt]:
    return Listed(items=(await _whole(request, number_of(request))).attempts)


async def logs(request: WebRequest, query: LogQuery) -> Listed[Line]:
    found = await request.app.ask(
        job_lines,
        number_of(request),
        after=query.after,
        limit=query.limit,
        tenant=request.user.tenant,
    )
    after = str(found[-1].seq) if len(found) == query.limit else None
    return Listed(items=[Line.of(line) for line in found], next=after)


async def retry(request: WebRequest, _: Nothing) -> WholeJob:
    number = number_of(request)
    await (await request.app.jobs.aget(number)).aretry()
    return await _whole(request, number)


async def cancel(request: WebRequest, body: Reason) -> Cancelled:
    number = number_of(request)
    found = await request.app.jobs.aget(number)
    if not await found.acancel(reason=body.reason):
        raise WrongState(f"job {number} has ended: it is {found.state}")
    return Cancelled(id=number, state=(await found.arefresh()).state.value)


async def again(request: WebRequest, body: RunAgain) -> EnqueuedOne:
    made = await request.app.ask(
        run_again,
        request.app.registry,
        number_of(request),
        args=body.args,
        tenant=request.user.tenant,
    )
    return EnqueuedOne(id=made)


async def remove(request: WebRequest, _: Nothing) -> None:
    await request.app.ask(forget_job, number_of(request), tenant=request.user.tenant)


def number_of(request: WebRequest, what: str = "job", *, part: str = "id") -> int:
    text = request.name(part)
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise NotFound(f'there is no {what} "{text[:40]}": they have numbers')
    return int(text)


async def _whole(request: WebRequest, number: int) -> WholeJob:
    story = await request.app.ask(job_story, number, tenant=request.user.tenant)
    return WholeJob.told(story)


JOB: Final = (
    Endpoint(
        method="GET",
        path="/jobs/{id}",
        role="viewer",
        tenants=True,
        run=job,
        summary="Everything about a job",
        tag="jobs",
        answer=WholeJob,
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/why",
        role="viewer",
        tenants=True,
        run=why,
        summary="What became of a job, or why nothing has yet",
        tag="jobs",
        answer=Why,
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/attempts",
        role="viewer",
        tenants=True,
        run=attempts,
        summary="Its executions that did not end it well",
        tag="jobs",
        answer=Listed[JobAttempt],
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/logs",
        role="viewer",
        tenants=True,
        run=logs,
        summary="What it has said",
        tag="jobs",
        body=LogQuery,
        answer=Listed[Line],
        about="To follow it, ask again with `after` as the number of the last line.",
    ),
    Endpoint(
        method="POST",
        path="/jobs/{id}/retry",
        role="operator",
        tenants=True,
        run=retry,
        summary="Give a failed job another chance",
        tag="jobs",
        answer=WholeJob,
        say=lambda found: (
            f"Job {found.id} gets another chance."
            if found.flow is None
            else f"Flow {found.id} goes on from its failed steps."
        ),
    ),
    Endpoint(
        method="POST",
        path="/jobs/{id}/cancel",
        role="operator",
        tenants=True,
        run=cancel,
        summary="Call a job off: one that runs is asked to end",
        tag="jobs",
        body=Reason,
        answer=Cancelled,
        say=lambda found: (
            f"Job {found.id} is cancelled."
            if found.state == "cancelled"
            else f"Job {found.id} is asked to end."
        ),
        example={"reason": "sent by hand"},
    ),
    Endpoint(
        method="POST",
        path="/jobs/{id}/run-again",
        role="operator",
        tenants=True,
        run=again,
        summary="A new job like this one, with the same arguments or others",
        tag="jobs",
        body=RunAgain,
        answer=EnqueuedOne,
        status=201,
        say=lambda found: f"Job {found.id} is enqueued.",
        example={"args": {"to": "bob"}},
    ),
    Endpoint(
        method="DELETE",
        path="/jobs/{id}",
        role="operator",
        tenants=True,
        run=remove,
        summary="Forget a job that has ended, with its attempts and its log",
        tag="jobs",
        say=lambda _: "Deleted.",
    ),
)
