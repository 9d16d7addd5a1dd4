"""Flows as they are answered: their steps, and the jobs of a step. Counted from 1, as people do."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from duly.model.flow import FlowProgress as Far
from duly.model.flow import PartInfo
from duly.policy.redaction import redacted
from duly.views.flow_page import Awaits, FlowSeen, StepSeen
from duly.web.api.schemas.common import Body, JobId, Limit, Number, Said, length_text

StepStateName: TypeAlias = Literal[
    "waiting", "running", "succeeded", "failed", "cancelled", "skipped"
]


class PartQuery(Body, frozen=True):
    """Which parts."""

    after: Annotated[Number, Meta(description="Behind the part of this number.")] = 0
    limit: Limit = 100


class FlowProgress(Said, frozen=True):
    """How far a flow is."""

    steps: int
    remaining: Annotated[int, Meta(description="Steps that have not ended.")]
    failed: Annotated[int, Meta(description="Steps that have failed.")]

    @classmethod
    def of(cls, flow: Far) -> "FlowProgress":
        return cls(steps=flow.steps, remaining=flow.remaining, failed=flow.failed)


class Awaited(Said, frozen=True):
    """The event that a step waits for: `POST /events` answers it."""

    event: str
    key: Annotated[str | None, Meta(description="What the event must be about.")]
    until: datetime | None

    @classmethod
    def of(cls, awaits: Awaits) -> "Awaited":
        return cls(event=awaits.event, key=awaits.key, until=awaits.until)


class FlowStep(Said, frozen=True):
    """A step of a flow, and where it stands."""

    number: Annotated[int, Meta(description="From 1, in an order in which they could run.")]
    name: str
    task: str
    kind: Annotated[
        Literal["step", "map", "wait"],
        Meta(description="One job; one for each item of a list; or it waits for an event."),
    ]
    state: StepStateName
    before: Annotated[list[int], Meta(description="The steps that it waits for, or waited.")]
    when: Annotated[
        Literal["all_succeeded", "any_failed", "all_done"],
        Meta(description="What those must have come to."),
    ]
    if_failed: Annotated[
        Literal["cancel", "go_on"], Meta(description="What becomes of the rest, if it fails.")
    ]
    critical: Annotated[bool, Meta(description="It decides when the flow ends.")]
    parts: Annotated[int, Meta(description="How many jobs it is made of, once it has started.")]
    remaining: Annotated[int, Meta(description="Of its parts, those that have not ended.")]
    missed: Annotated[int, Meta(description="Of its parts, those that did not succeed.")]
    reason: str
    started_at: datetime | None
    ended_at: datetime | None
    took: Annotated[str | None, Meta(description="Or has taken so far.")]
    job_id: Annotated[int | None, Meta(description="The job of its first part.")]
    flow: Annotated[FlowProgress | None, Meta(description="How far it is, if it is a flow itself.")]
    awaits: Awaited | None

    @classmethod
    def of(cls, step: StepSeen) -> "FlowStep":
        info = step.info
        return cls(
            number=step.number,
            name=redacted(info.name),
            task=info.task,
            kind=info.kind,
            state=info.state.value,
            before=list(step.before),
            when=info.when,
            if_failed=info.if_failed,
            critical=step.is_critical,
            parts=info.parts,
            remaining=info.remaining,
            missed=info.missed,
            reason=redacted(info.reason),
            started_at=info.started_at,
            ended_at=info.ended_at,
            took=length_text(step.took),
            job_id=info.job_id,
            flow=None if step.inner is None else FlowProgress.of(step.inner),
            awaits=None if step.awaits is None else Awaited.of(step.awaits),
        )


class Flow(Said, frozen=True):
    """A flow as it is now."""

    id: JobId
    said: Annotated[str, Meta(examples=["3 of 5 steps are done"])]
    remaining: int
    failed: int
    first_failed: Annotated[int | None, Meta(description="The step that failed first.")]
    opened_at: datetime
    ended_at: datetime | None
    steps: list[FlowStep]

    @classmethod
    def of(cls, flow: FlowSeen) -> "Flow":
        failed = flow.first_failed
        return cls(
            id=flow.info.id,
            said=flow.told,
            remaining=flow.info.remaining,
            failed=flow.info.failed,
            first_failed=None if failed is None else failed.number,
            opened_at=flow.info.opened_at,
            ended_at=flow.info.ended_at,
            steps=[FlowStep.of(step) for step in flow.steps],
        )


class Part(Said, frozen=True):
    """One of the jobs of a step."""

    part: int
    job_id: int
    state: Annotated[str, Meta(description="running, until it has ended.")]

    @classmethod
    def of(cls, part: PartInfo) -> "Part":
        return cls(part=part.part + 1, job_id=part.job_id, state=part.state)
