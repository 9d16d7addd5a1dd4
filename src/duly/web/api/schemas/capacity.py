"""Queues, limits and workers as they are sent and answered."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from duly.model.worker import WorkerInfo
from duly.policy.redaction import redacted
from duly.views.capacity import LimitFacts, QueueFacts
from duly.web.api.schemas.common import Body, Said

MOST_AT_ONCE = 1_000_000

Concurrency: TypeAlias = Annotated[
    int, Meta(ge=1, le=MOST_AT_ONCE, description="So many run at once, in the whole cluster.")
]
Rate: TypeAlias = Annotated[
    str, Meta(description="How often one may begin, as 5/s or 100/m.", examples=["100/m"])
]


class NoteBody(Body, frozen=True):
    """Why, for whoever wonders."""

    note: str = ""


class SetQueue(Body, frozen=True):
    """How much may run; what is left out stays as it is, and null is for no limit."""

    concurrency: Concurrency | UnsetType | None = UNSET
    rate: Rate | UnsetType | None = UNSET
    fair: Annotated[bool | UnsetType, Meta(description="Whether tenants take turns.")] = UNSET


class SetLimit(Body, frozen=True):
    """What counts for a limit from now on, whatever code says; null is for no limit."""

    concurrency: Concurrency | None = None
    rate: Rate | None = None


class StopBody(Body, frozen=True):
    """When."""

    now: Annotated[bool, Meta(description="Stop what runs, too; others run it again.")] = False


class Scale(Body, frozen=True):
    """How many jobs it runs at once."""

    concurrency: Annotated[int, Meta(ge=1, le=10_000)]


class Queue(Said, frozen=True):
    """A line of jobs, and what is in it. Above 10,000, numbers are: more than that."""

    name: str
    paused: bool
    note: str
    concurrency: int | None
    rate: str | None
    fair: bool
    ready: int
    scheduled: int
    blocked: int
    running: int
    oldest_ready_at: datetime | None

    @classmethod
    def of(cls, facts: QueueFacts) -> "Queue":
        queue, depth = facts.queue, facts.depth
        return cls(
            name=queue.name,
            paused=queue.paused,
            note=redacted(queue.note),
            concurrency=queue.concurrency,
            rate=None if queue.rate is None else str(queue.rate),
            fair=queue.fair,
            ready=depth.ready,
            scheduled=depth.scheduled,
            blocked=depth.blocked,
            running=depth.running,
            oldest_ready_at=depth.oldest_ready_at,
        )


class Limit(Said, frozen=True):
    """A limit under one rendered name, and who is there."""

    name: str
    template: str
    concurrency: int | None
    rate: str | None
    running: int
    waiting: int

    @classmethod
    def of(cls, lane: LimitFacts) -> "Limit":
        return cls(
            name=lane.name,
            template=lane.template,
            concurrency=lane.concurrency,
            rate=None if lane.rate is None else str(lane.rate),
            running=lane.running,
            waiting=lane.waiting,
        )


class LimitSet(Said, frozen=True):
    """What counts for a limit from now on."""

    name: str
    concurrency: int | None
    rate: str | None


class Worker(Said, frozen=True):
    """Who runs jobs."""

    id: int
    name: str
    queues: list[str]
    tasks: list[str]
    slots: int
    running: int
    resources: dict[str, int]
    order: Annotated[
        Literal["run", "drain", "stop", "kill"], Meta(description="What it was told to do.")
    ]
    slots_ordered: int | None
    version: str
    pid: int
    started_at: datetime
    beat_at: Annotated[datetime, Meta(description="When it last said that it lives.")]
    lease_until: datetime

    @classmethod
    def of(cls, info: WorkerInfo) -> "Worker":
        profile = info.profile
        return cls(
            id=info.id,
            name=info.name,
            queues=list(info.queues),
            tasks=list(info.tasks),
            slots=profile.slots,
            running=info.running,
            resources=dict(profile.resources),
            order=info.order,
            slots_ordered=info.slots_ordered,
            version=profile.version,
            pid=profile.host.pid,
            started_at=info.started_at,
            beat_at=info.beat_at,
            lease_until=info.lease_until,
        )
