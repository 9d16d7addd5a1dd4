"""A worker in any language that speaks HTTP: register, claim, renew, finish.

Arguments are given as they are, secrets and all: whoever runs a job needs them. So it takes the
operator role, for all tenants. A worker is its token's own: no other token speaks for it, and none
for a worker that is native.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from duly.app.web_backend import UserApp
from duly.runtime.http_workers import FencedJob, HttpWorkers, ReportedLine
from duly.web.api.endpoint import Endpoint
from duly.web.api.schemas.working import (
    Claim,
    ClaimedWork,
    Finish,
    FinishAnswer,
    Given,
    HeldJobs,
    Log,
    ProgressReport,
    Register,
    Registered,
    Renewed,
    WorkerNumber,
)
from duly.web.request import WebRequest

TAG: Final = "work"

B = TypeVar("B")
A = TypeVar("A")


async def register(workers: HttpWorkers, app: UserApp, body: Register) -> Registered:
    return Registered.of(await workers.register(body.wanted(), holder=app.holder))


async def renew(workers: HttpWorkers, app: UserApp, body: WorkerNumber) -> Renewed:
    return Renewed.of(await workers.renew(body.worker, holder=app.holder))


async def claim(workers: HttpWorkers, app: UserApp, body: Claim) -> Given:
    brought = await workers.claim(body.worker, holder=app.holder, limit=body.limit, wait=body.wait)
    return Given(order=brought.order, jobs=[ClaimedWork.of(job) for job in brought.jobs])


async def held(workers: HttpWorkers, app: UserApp, body: WorkerNumber) -> HeldJobs:
    jobs = await workers.held(body.worker, holder=app.holder)
    return HeldJobs(jobs=[ClaimedWork.of(job) for job in jobs])


async def finished(workers: HttpWorkers, app: UserApp, body: Finish) -> FinishAnswer:
    """The audit log names the user who reports the outcomes."""
    report = await app.ask(workers.finish, body.worker, body.endings(), holder=app.holder)
    return FinishAnswer.of(report)


async def log(workers: HttpWorkers, app: UserApp, body: Log) -> None:
    lines = [ReportedLine(line.text, line.level, line.at) for line in body.lines]
    await workers.log(FencedJob(body.worker, body.id, body.fence), lines, holder=app.holder)


async def progress(workers: HttpWorkers, app: UserApp, body: ProgressReport) -> None:
    job = FencedJob(body.worker, body.id, body.fence)
    await workers.progress(job, body.percent, message=body.message, holder=app.holder)


async def end(workers: HttpWorkers, app: UserApp, body: WorkerNumber) -> None:
    await workers.end(body.worker, holder=app.holder)


def _endpoint(
    name: str,
    run: Callable[[HttpWorkers, UserApp, B], Awaitable[A]],
    *,
    body: type[B],
    answer: type[A] | None = None,
    summary: str,
) -> Endpoint[B, A]:
    async def ran(request: WebRequest, said: B) -> A:
        return await run(await request.app.backend.http_workers(), request.app, said)

    return Endpoint(
        method="POST",
        path=f"/{TAG}/{name}",
        role="operator",
        run=ran,
        summary=summary,
        tag=TAG,
        body=body,
        answer=answer,
    )


WORKING: Final = (
    _endpoint(
        "register",
        register,
        body=Register,
        answer=Registered,
        summary="Begin a worker, and its lease",
    ),
    _endpoint(
        "renew",
        renew,
        body=WorkerNumber,
        answer=Renewed,
        summary="Prolong the lease, and hear what is to be done",
    ),
    _endpoint(
        "claim", claim, body=Claim, answer=Given, summary="Take jobs to run, or wait for some"
    ),
    _endpoint(
        "held",
        held,
        body=WorkerNumber,
        answer=HeldJobs,
        summary="What it runs: after an answer that was lost",
    ),
    _endpoint(
        "finish", finished, body=Finish, answer=FinishAnswer, summary="Say what became of jobs"
    ),
    _endpoint("log", log, body=Log, summary="Write lines into the log of a job"),
    _endpoint("progress", progress, body=ProgressReport, summary="Say how far a job is"),
    _endpoint("end", end, body=WorkerNumber, summary="End a worker: others get what it still held"),
)
