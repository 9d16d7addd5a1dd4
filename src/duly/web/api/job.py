"""One job over HTTP: everything about it, its flow, retry, cancel, run again, delete."""

from typing import Final

from duly.app.calls_by_name import run_again
from duly.errors import NotFound, WrongState
from duly.views import Listed
from duly.views.flow import FlowView, PartView, flow_detail, step_parts
from duly.views.job import (
    AttemptView,
    JobDetail,
    LogLineView,
    job_detail,
    job_log,
    remove_job,
)
from duly.views.why import WhyView
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.jobs import (
    CancelledJob,
    CancelReason,
    EnqueuedOne,
    LogQuery,
    PartQuery,
    RunAgain,
)
from duly.web.request import WebRequest

MOST_DIGITS: Final = 18  # of the number of a job
MOST_STEP_DIGITS: Final = 9


async def job(request: WebRequest, _: Nothing) -> JobDetail:
    return await _detail(request, number_of(request))


async def why(request: WebRequest, _: Nothing) -> WhyView:
    return (await _detail(request, number_of(request))).why


async def attempts(request: WebRequest, _: Nothing) -> Listed[AttemptView]:
    return Listed(items=list((await _detail(request, number_of(request))).attempts))


async def logs(request: WebRequest, query: LogQuery) -> Listed[LogLineView]:
    found = await request.app.ask(
        job_log,
        number_of(request),
        after=query.after,
        limit=query.limit,
        tenant=request.user.tenant,
    )
    after = str(found.last) if found.is_full else None
    return Listed(items=list(found.lines), next=after)


async def flow(request: WebRequest, _: Nothing) -> FlowView:
    return await request.app.ask(flow_detail, number_of(request), tenant=request.user.tenant)


async def parts(request: WebRequest, query: PartQuery) -> Listed[PartView]:
    return await request.app.ask(
        step_parts,
        number_of(request),
        _step(request),
        after=query.after,
        limit=query.limit,
        tenant=request.user.tenant,
    )


async def retry(request: WebRequest, _: Nothing) -> JobDetail:
    number = number_of(request)
    await (await request.app.jobs.aget(number)).aretry()
    return await _detail(request, number)


async def cancel(request: WebRequest, body: CancelReason) -> CancelledJob:
    number = number_of(request)
    found = await request.app.jobs.aget(number)
    if not await found.acancel(reason=body.reason):
        raise WrongState(f"job {number} has ended: it is {found.state}")
    return CancelledJob(id=number, state=(await found.arefresh()).state)


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
    await request.app.ask(remove_job, number_of(request), tenant=request.user.tenant)


def number_of(request: WebRequest, what: str = "job", *, part: str = "id") -> int:
    text = request.name(part)
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise NotFound(f'there is no {what} "{text[:40]}": they have numbers')
    return int(text)


def _step(request: WebRequest) -> int:
    """The number of a step in the path; 0, which no step has, if it is not a number."""
    text = request.name("step")
    is_number = text.isascii() and text.isdigit() and len(text) <= MOST_STEP_DIGITS
    return int(text) if is_number else 0


async def _detail(request: WebRequest, number: int) -> JobDetail:
    return await request.app.ask(job_detail, number, tenant=request.user.tenant)


JOB: Final = (
    Endpoint(
        method="GET",
        path="/jobs/{id}",
        role="viewer",
        tenants=True,
        run=job,
        summary="Everything about a job",
        tag="jobs",
        answer=JobDetail,
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/why",
        role="viewer",
        tenants=True,
        run=why,
        summary="Why a job is in its state",
        tag="jobs",
        answer=WhyView,
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/attempts",
        role="viewer",
        tenants=True,
        run=attempts,
        summary="Its executions that did not end it well",
        tag="jobs",
        answer=Listed[AttemptView],
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/logs",
        role="viewer",
        tenants=True,
        run=logs,
        summary="Its log",
        tag="jobs",
        body=LogQuery,
        answer=Listed[LogLineView],
        about="To follow it, ask again with `after` as the number of the last line.",
    ),
    Endpoint(
        method="POST",
        path="/jobs/{id}/retry",
        role="operator",
        tenants=True,
        run=retry,
        summary="Retry a failed job",
        tag="jobs",
        answer=JobDetail,
        say=lambda found: (
            f"Job {found.id} is retried."
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
        summary="Cancel a job; a running job is asked to stop",
        tag="jobs",
        body=CancelReason,
        answer=CancelledJob,
        say=lambda found: (
            f"Job {found.id} is cancelled."
            if found.state == "cancelled"
            else f"Job {found.id} is asked to stop."
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
        summary="Delete a job that has ended, with its attempts and its log",
        tag="jobs",
        say=lambda _: "Deleted.",
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/flow",
        role="viewer",
        tenants=True,
        run=flow,
        summary="A flow and its steps",
        tag="jobs",
        answer=FlowView,
        about="A flow is a job with steps, which are jobs too: `filter=flow:4711` lists those.",
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/flow/{step}/parts",
        role="viewer",
        tenants=True,
        run=parts,
        summary="The jobs of a step",
        tag="jobs",
        body=PartQuery,
        answer=Listed[PartView],
    ),
)
