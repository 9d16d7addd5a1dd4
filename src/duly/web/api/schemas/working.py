"""What a worker in another language sends, and what it is answered."""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from duly.model.claimed import Claimed
from duly.model.outcome import Outcome, Returned, Stopped
from duly.model.worker import Order
from duly.runtime.http_workers import (
    FinishReport,
    RegisteredWorker,
    Registration,
    Renewal,
    ReportedOutcome,
    failed,
    succeeded,
)
from duly.web.api.schemas.common import Body, Duration, JobId, Number, Said

Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
Fence: TypeAlias = Annotated[
    int, Meta(ge=0, le=2**63 - 1, description="The number that came with the job.")
]
Told: TypeAlias = Annotated[
    Order,
    Meta(
        description="run; drain: take nothing more; stop: end when what runs has ended; "
        "kill: give back what runs, and end."
    ),
]


class Register(Body, frozen=True):
    """The name of an HTTP worker, its tasks, queues and slots."""

    name: Annotated[str, Meta(min_length=1, description="For people: two may have the same.")]
    tasks: Annotated[tuple[str, ...], Meta(min_length=1, description="The tasks that it knows.")]
    queues: tuple[str, ...] = ("default",)
    slots: Annotated[int, Meta(description="How many jobs it runs at once, at most.")] = 1
    lease: Annotated[
        str, Meta(description="How long it may be silent until others get its jobs.")
    ] = "60s"
    resources: Annotated[dict[str, int], Meta(description="What it has for tasks with needs.")] = (
        msgspec.field(default_factory=dict)
    )

    def wanted(self) -> Registration:
        return Registration(
            name=self.name,
            tasks=self.tasks,
            queues=self.queues,
            slots=self.slots,
            lease=self.lease,
            resources=self.resources,
        )


class Registered(Said, frozen=True):
    worker: Annotated[int, Meta(description="To be shown with everything it says.")]
    lease_until: datetime

    @classmethod
    def of(cls, found: RegisteredWorker) -> "Registered":
        return cls(worker=found.worker, lease_until=found.lease_until)


class WorkerNumber(Body, frozen=True):
    """Which worker asks: the number that it was given when it registered."""

    worker: Number


class Renewed(Said, frozen=True):
    """The order to a worker: go on, finish its jobs, or stop."""

    lease_until: datetime
    order: Told
    slots: Annotated[int, Meta(description="How many jobs it may run at once.")]
    jobs: Annotated[list[int], Meta(description="What it runs, as the store has it.")]
    cancel: Annotated[dict[str, str], Meta(description="Jobs to be stopped, and why.")]

    @classmethod
    def of(cls, heard: Renewal) -> "Renewed":
        return cls(
            lease_until=heard.lease_until,
            order=heard.order,
            slots=heard.slots,
            jobs=list(heard.jobs),
            cancel={str(number): reason for number, reason in heard.cancel.items()},
        )


class Claim(WorkerNumber, frozen=True):
    """How many jobs to take, and how long to wait until there is one."""

    limit: Annotated[int, Meta(description="1 to 100.")] = 1
    wait: Duration = "0s"


class ClaimedWork(Said, frozen=True):
    """A job to be run."""

    id: int
    fence: Annotated[int, Meta(description="To be shown with all that is said about the job.")]
    task: str
    args: Annotated[msgspec.Raw, Meta(description="As they were given: nothing is hidden.")]
    attempt: Annotated[int, Meta(description="The first is 1.")]
    queue: str
    due_at: datetime
    deadline: Annotated[datetime | None, Meta(description="By when it had to start.")]
    timeout_seconds: Annotated[
        float | None, Meta(description="After so long its worker is to stop it.")
    ]
    title: str
    key: str | None
    tenant: str
    schedule: str | None

    @classmethod
    def of(cls, claimed: Claimed) -> "ClaimedWork":
        job, timeout = claimed.job, claimed.terms.timeout
        return cls(
            id=job.id,
            fence=job.fence,
            task=job.task,
            args=msgspec.Raw(job.args.encode()),
            attempt=job.attempt,
            queue=job.queue,
            due_at=job.due_at,
            deadline=job.deadline,
            timeout_seconds=None if timeout is None else timeout.total_seconds(),
            title=job.title,
            key=job.key,
            tenant=job.tenant,
            schedule=claimed.schedule,
        )


class Given(Said, frozen=True):
    """The claimed jobs, and the order to the worker."""

    order: Told
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
    """It failed; whether it is tried again, its own retry decides, unless this says otherwise."""

    id: JobId
    fence: Fence
    error: Annotated[str, Meta(examples=["ConnectionError: nobody answers"])]
    traceback: str = ""
    retry: Annotated[
        bool | str,
        Meta(description="false: it would fail again; a length of time: not before that."),
    ] = True


class StoppedJob(Body, frozen=True):
    """It was stopped, or is given back."""

    id: JobId
    fence: Fence
    reason: str = ""


class Finish(WorkerNumber, frozen=True):
    """What became of jobs."""

    done: tuple[DoneJob, ...] = ()
    failed: tuple[FailedJob, ...] = ()
    cancelled: Annotated[
        tuple[StoppedJob, ...], Meta(description="Without a reason: the one it was asked with.")
    ] = ()
    given_back: Annotated[
        tuple[StoppedJob, ...],
        Meta(description="Not begun, or left off because the worker stops: others run them."),
    ] = ()

    def endings(self) -> list[ReportedOutcome]:
        return [
            *(ReportedOutcome(one.id, one.fence, succeeded(one.result)) for one in self.done),
            *(ReportedOutcome(one.id, one.fence, _failed(one)) for one in self.failed),
            *(ReportedOutcome(one.id, one.fence, Stopped(one.reason)) for one in self.cancelled),
            *(
                ReportedOutcome(
                    one.id, one.fence, Returned(one.reason or "given back by its worker")
                )
                for one in self.given_back
            ),
        ]


class RefusedJob(Said, frozen=True):
    id: int
    why: str


class FinishAnswer(Said, frozen=True):
    """Which were written, now or before, and which are not the worker's any more."""

    kept: list[int]
    refused: list[RefusedJob]

    @classmethod
    def of(cls, written: FinishReport) -> "FinishAnswer":
        refused = [RefusedJob(id=one.id, why=one.why) for one in written.refused]
        return cls(kept=sorted(written.kept), refused=refused)


class LineSaid(Body, frozen=True):
    text: str
    level: str = "info"
    at: Annotated[Moment | None, Meta(description="null: now.")] = None


class Log(WorkerNumber, frozen=True):
    """Lines of the log of a job."""

    id: JobId
    fence: Fence
    lines: tuple[LineSaid, ...]


class ProgressReport(WorkerNumber, frozen=True):
    """How far a job is."""

    id: JobId
    fence: Fence
    percent: float
    message: str = ""


def _failed(one: FailedJob) -> Outcome:
    return failed(one.error, traceback=one.traceback, retry=one.retry)
