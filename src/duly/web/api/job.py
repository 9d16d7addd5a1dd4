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
from duly.web.api.endpoint import Nothing, Router
from duly.web.api.jobs import CancelledJob, CancelReason, EnqueuedOne, LogQuery, PartQuery, RunAgain
from duly.web.request import WebRequest

MOST_DIGITS: Final = 18  # of the number of a job
MOST_STEP_DIGITS: Final = 9


JOB: Final = Router("jobs", tenants=True)


@JOB("GET /jobs/{id}", "viewer")
async def job(request: WebRequest, _: Nothing) -> JobDetail:
    """Show a job."""
    return await _detail(request, number_of(request))


@JOB("GET /jobs/{id}/why", "viewer")
async def why(request: WebRequest, _: Nothing) -> WhyView:
    """Explain the state of a job."""
    return (await _detail(request, number_of(request))).why


@JOB("GET /jobs/{id}/attempts", "viewer")
async def attempts(request: WebRequest, _: Nothing) -> Listed[AttemptView]:
    """List the attempts of a job that failed or were lost."""
    return Listed(items=list((await _detail(request, number_of(request))).attempts))


@JOB("GET /jobs/{id}/logs", "viewer")
async def logs(request: WebRequest, query: LogQuery) -> Listed[LogLineView]:
    """Its log.

    To follow it, pass the number of the last line as `after`.
    """
    found = await request.app.ask(
        job_log,
        number_of(request),
        after=query.after,
        limit=query.limit,
        tenant=request.user.tenant,
    )
    after = str(found.last) if found.is_full else None
    return Listed(items=list(found.lines), next=after)


@JOB(
    "POST /jobs/{id}/retry",
    "operator",
    say=lambda found: (
        f"Job {found.id} is retried."
        if found.flow is None
        else f"Flow {found.id} continues from its failed steps."
    ),
)
async def retry(request: WebRequest, _: Nothing) -> JobDetail:
    """Retry a failed job."""
    number = number_of(request)
    await (await request.app.jobs.aget(number)).aretry()
    return await _detail(request, number)


@JOB(
    "POST /jobs/{id}/cancel",
    "operator",
    say=lambda found: (
        f"Job {found.id} is cancelled."
        if found.state == "cancelled"
        else f"Job {found.id} is asked to stop."
    ),
    example={"reason": "sent by hand"},
)
async def cancel(request: WebRequest, body: CancelReason) -> CancelledJob:
    """Cancel a job; a running job is asked to stop."""
    number = number_of(request)
    found = await request.app.jobs.aget(number)
    if not await found.acancel(reason=body.reason):
        raise WrongState(f"job {number} has ended: it is {found.state}")
    return CancelledJob(id=number, state=(await found.arefresh()).state)


@JOB(
    "POST /jobs/{id}/run-again",
    "operator",
    status=201,
    say=lambda found: f"Job {found.id} is enqueued.",
    example={"args": {"to": "bob"}},
)
async def again(request: WebRequest, body: RunAgain) -> EnqueuedOne:
    """Enqueue a copy of a job, with the same arguments or others."""
    made = await request.app.ask(
        run_again,
        request.app.registry,
        number_of(request),
        args=body.args,
        tenant=request.user.tenant,
    )
    return EnqueuedOne(id=made)


@JOB("DELETE /jobs/{id}", "operator", say=lambda _: "Deleted.")
async def remove(request: WebRequest, _: Nothing) -> None:
    """Delete a job that has ended, with its attempts and its log."""
    await request.app.ask(remove_job, number_of(request), tenant=request.user.tenant)


@JOB("GET /jobs/{id}/flow", "viewer")
async def flow(request: WebRequest, _: Nothing) -> FlowView:
    """A flow and its steps.

    A flow is a job with steps, which are jobs too; list them with `filter=flow:4711`.
    """
    return await request.app.ask(flow_detail, number_of(request), tenant=request.user.tenant)


@JOB("GET /jobs/{id}/flow/{step}/parts", "viewer")
async def parts(request: WebRequest, query: PartQuery) -> Listed[PartView]:
    """The jobs of a step."""
    return await request.app.ask(
        step_parts,
        number_of(request),
        _step(request),
        after=query.after,
        limit=query.limit,
        tenant=request.user.tenant,
    )


def number_of(request: WebRequest, what: str = "job", *, part: str = "id") -> int:
    text = request.name(part)
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise NotFound(f'there is no {what} "{text[:40]}": {what} ids are numbers')
    return int(text)


def _step(request: WebRequest) -> int:
    """The number of a step in the path; 0, which no step has, if it is not a number."""
    text = request.name("step")
    is_number = text.isascii() and text.isdigit() and len(text) <= MOST_STEP_DIGITS
    return int(text) if is_number else 0


async def _detail(request: WebRequest, number: int) -> JobDetail:
    return await request.app.ask(job_detail, number, tenant=request.user.tenant)
