"""Workers in any language, over HTTP: register, claim, renew, finish.

Arguments are not redacted, because the worker needs them. So these endpoints need the role operator
for all tenants. Only the token that registered a worker may act for it.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import wraps
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from duly.app.web_backend import UserApp
from duly.model.job import Claimed
from duly.model.outcome import Returned, Stopped
from duly.runtime.http_workers import (
    FencedJob,
    FinishReport,
    HttpWorkers,
    RegisteredWorker,
    Registration,
    Renewal,
    ReportedLine,
    ReportedOutcome,
    WorkerOrder,
    failed,
    succeeded,
)
from duly.web.api.endpoint import Body, Duration, JobId, Number, Router, Said, described
from duly.web.request import WebRequest

Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
Fence: TypeAlias = Annotated[
    int, described("The fencing token that came with the job.", ge=0, le=2**63 - 1)
]


class WorkerNumber(Body, frozen=True):
    """The number that the worker got when it registered."""

    worker: Number


class Claim(WorkerNumber, frozen=True):
    """The number of jobs to claim, and how long to wait for one."""

    limit: Annotated[int, described("1 to 100.")] = 1
    wait: Duration = "0s"


class ClaimedWork(Said, frozen=True):
    """A claimed job."""

    id: int
    fence: Annotated[int, described("Must be sent with every report about the job.")]
    task: str
    args: Annotated[msgspec.Raw, described("As enqueued; nothing is hidden.")]
    attempt: Annotated[int, described("The first is 1.")]
    queue: str
    due_at: datetime
    deadline: Annotated[datetime | None, described("Start deadline.")]
    timeout_seconds: Annotated[
        float | None, described("Time limit, after which the worker must stop it.")
    ]
    title: str
    key: str | None
    tenant: str
    schedule: str | None

    @classmethod
    def claimed(cls, claimed: Claimed) -> "ClaimedWork":
        timeout = claimed.terms.timeout
        return cls.of(
            claimed.job,
            args=msgspec.Raw(claimed.job.args.encode()),
            timeout_seconds=None if timeout is None else timeout.total_seconds(),
            schedule=claimed.schedule,
        )


class Given(Said, frozen=True):
    """The claimed jobs, and the order to the worker."""

    order: WorkerOrder
    jobs: list[ClaimedWork]


class HeldJobs(Said, frozen=True):
    """The jobs that the worker has claimed."""

    jobs: list[ClaimedWork]


class DoneJob(Body, frozen=True):
    """A job that succeeded."""

    id: JobId
    fence: Fence
    result: Any = None


class FailedJob(Body, frozen=True):
    """The job failed; its own retry policy decides about a retry, unless `retry` overrides it."""

    id: JobId
    fence: Fence
    error: Annotated[str, Meta(examples=["ConnectionError: nobody answers"])]
    traceback: str = ""
    retry: Annotated[bool | str, described("false: no retry; a duration: retry after it.")] = True


class StoppedJob(Body, frozen=True):
    """The job was stopped, or is given back."""

    id: JobId
    fence: Fence
    reason: str = ""


class Finish(WorkerNumber, frozen=True):
    """The outcomes of jobs."""

    done: tuple[DoneJob, ...] = ()
    failed: tuple[FailedJob, ...] = ()
    cancelled: Annotated[
        tuple[StoppedJob, ...], described("Default reason: that of the cancellation request.")
    ] = ()
    given_back: Annotated[
        tuple[StoppedJob, ...],
        described("Not started, or interrupted by a stop; other workers run them."),
    ] = ()

    def endings(self) -> list[ReportedOutcome]:
        return [
            *(ReportedOutcome(one.id, one.fence, succeeded(one.result)) for one in self.done),
            *(
                ReportedOutcome(
                    one.id,
                    one.fence,
                    failed(one.error, traceback=one.traceback, retry=one.retry),
                )
                for one in self.failed
            ),
            *(ReportedOutcome(one.id, one.fence, Stopped(one.reason)) for one in self.cancelled),
            *(
                ReportedOutcome(
                    one.id, one.fence, Returned(one.reason or "given back by its worker")
                )
                for one in self.given_back
            ),
        ]


class Log(WorkerNumber, frozen=True):
    """Lines of the log of a job."""

    id: JobId
    fence: Fence
    lines: tuple[ReportedLine, ...]


class ProgressReport(WorkerNumber, frozen=True):
    """The progress of a job."""

    id: JobId
    fence: Fence
    percent: float
    message: str = ""


B = TypeVar("B")
A = TypeVar("A")
Handler: TypeAlias = Callable[[HttpWorkers, UserApp, B], Awaitable[A]]


WORKING: Final = Router("work")


def _endpoint(name: str) -> Callable[[Handler[B, A]], Handler[B, A]]:
    """Declare an endpoint for workers, which gets the HTTP workers of this process."""

    def declare(run: Handler[B, A]) -> Handler[B, A]:
        @WORKING(f"POST /{WORKING.tag}/{name}", "operator")
        @wraps(run)
        async def ran(request: WebRequest, said: B) -> A:
            return await run(await request.app.backend.http_workers(), request.app, said)

        return run

    return declare


@_endpoint("register")
async def register(workers: HttpWorkers, app: UserApp, body: Registration) -> RegisteredWorker:
    """Register a worker, and begin its lease."""
    return await workers.register(body, holder=app.holder)


@_endpoint("renew")
async def renew(workers: HttpWorkers, app: UserApp, body: WorkerNumber) -> Renewal:
    """Renew the lease, and get the order to the worker."""
    return await workers.renew(body.worker, holder=app.holder)


@_endpoint("claim")
async def claim(workers: HttpWorkers, app: UserApp, body: Claim) -> Given:
    """Claim jobs, or wait for some."""
    brought = await workers.claim(body.worker, holder=app.holder, limit=body.limit, wait=body.wait)
    return Given(order=brought.order, jobs=[ClaimedWork.claimed(job) for job in brought.jobs])


@_endpoint("held")
async def held(workers: HttpWorkers, app: UserApp, body: WorkerNumber) -> HeldJobs:
    """List the jobs that the worker holds, for use after a lost response."""
    jobs = await workers.held(body.worker, holder=app.holder)
    return HeldJobs(jobs=[ClaimedWork.claimed(job) for job in jobs])


@_endpoint("finish")
async def finished(workers: HttpWorkers, app: UserApp, body: Finish) -> FinishReport:
    """Report the outcomes of jobs."""
    # The audit log names the user who reports the outcomes.
    return await app.ask(workers.finish, body.worker, body.endings(), holder=app.holder)


@_endpoint("log")
async def log(workers: HttpWorkers, app: UserApp, body: Log) -> None:
    """Write lines into the log of a job."""
    await workers.log(FencedJob(body.worker, body.id, body.fence), body.lines, holder=app.holder)


@_endpoint("progress")
async def progress(workers: HttpWorkers, app: UserApp, body: ProgressReport) -> None:
    """Report the progress of a job."""
    job = FencedJob(body.worker, body.id, body.fence)
    await workers.progress(job, body.percent, message=body.message, holder=app.holder)


@_endpoint("end")
async def end(workers: HttpWorkers, app: UserApp, body: WorkerNumber) -> None:
    """Unregister a worker; its remaining jobs go to other workers."""
    await workers.end(body.worker, holder=app.holder)
