"""How things stand, as it is answered."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from duly.doctor import Finding as Found
from duly.policy.redaction import redacted
from duly.views.attention import Need as Needed
from duly.views.today import AwaitingStep, NextRun, RunningJob
from duly.views.today import Status as Standing
from duly.web.api.schemas.common import Said


class Matter(Said, frozen=True):
    """What is sent to acknowledge it."""

    subject: str
    kind: str
    until: datetime


class NeedStep(Said, frozen=True):
    """Something that can be done about it."""

    what: str
    command: Annotated[str, Meta(description="What to type.")]


class Need(Said, frozen=True):
    """Something that was not kept, or cannot be, and what it needs."""

    name: str
    kind: str
    sentence: str
    due_at: datetime | None
    moments: int
    job_id: int | None
    steps: list[NeedStep]
    matter: Annotated[Matter | None, Meta(description="null: it cannot be acknowledged.")]

    @classmethod
    def of(cls, need: Needed) -> "Need":
        matter = need.matter
        return cls(
            name=need.name,
            kind=need.kind,
            sentence=redacted(need.sentence),
            due_at=need.due_at,
            moments=need.moments,
            job_id=need.job_id,
            steps=[NeedStep(what=one.what, command=redacted(one.line)) for one in need.commands],
            matter=None
            if matter is None
            else Matter(subject=matter.subject, kind=matter.kind, until=matter.until),
        )


class Running(Said, frozen=True):
    """A job that runs."""

    id: int
    name: str
    since: datetime
    percent: float | None
    message: str

    @classmethod
    def of(cls, job: RunningJob) -> "Running":
        return cls(
            id=job.id,
            name=redacted(job.name),
            since=job.since,
            percent=job.percent,
            message=redacted(job.message),
        )


class Awaiting(Said, frozen=True):
    """A step that waits for an event: what POST /api/v1/events answers."""

    id: int
    flow: int
    name: Annotated[str, Meta(description="Of its flow.")]
    event: str
    key: str | None
    until: datetime | None

    @classmethod
    def of(cls, step: AwaitingStep) -> "Awaiting":
        awaits = step.awaits
        return cls(
            id=step.id,
            name=redacted(step.name),
            flow=step.flow,
            event=awaits.event,
            key=None if awaits.key is None else redacted(awaits.key),
            until=awaits.until,
        )


class Next(Said, frozen=True):
    """A moment to come."""

    name: str
    due_at: datetime
    zone: str
    overdue: Annotated[bool, Meta(description="No scheduler has fired it.")]

    @classmethod
    def of(cls, one: NextRun) -> "Next":
        return cls(name=one.name, due_at=one.due_at, zone=one.zone, overdue=one.overdue)


class Status(Said, frozen=True):
    """Whether all that was due since yesterday was kept, and what needs somebody."""

    headline: str
    ok: Annotated[bool, Meta(description="Nothing needs anybody.")]
    now: datetime
    since: datetime
    due: int
    kept: int
    late: Annotated[int, Meta(description="So many of the kept.")]
    under_way: int
    not_kept: int
    overdue: Annotated[int, Meta(description="Due, and no scheduler has fired them.")]
    merged: Annotated[int, Meta(description="Another run stands for them: not counted as due.")]
    on_purpose: Annotated[int, Meta(description="Not wanted: not counted as due.")]
    needs: list[Need]
    running: list[Running]
    running_count: int
    awaiting: Annotated[list[Awaiting], Meta(description="Those that give up soonest.")]
    next: list[Next]

    @classmethod
    def of(cls, found: Standing, zone: str) -> "Status":
        counts = found.counts
        return cls(
            headline=found.headline(zone),
            ok=found.ok,
            now=found.now,
            since=found.since,
            due=counts.due,
            kept=counts.kept,
            late=counts.late,
            under_way=counts.under_way,
            not_kept=counts.not_kept,
            overdue=counts.overdue,
            merged=counts.merged,
            on_purpose=counts.on_purpose,
            needs=[Need.of(need) for need in found.needs],
            running=[Running.of(job) for job in found.running],
            running_count=found.running_count,
            awaiting=[Awaiting.of(step) for step in found.awaiting],
            next=[Next.of(one) for one in found.coming],
        )


class Finding(Said, frozen=True):
    """What one check came to."""

    check: str
    level: Literal["ok", "warning", "problem"]
    said: str
    fix: Annotated[str | None, Meta(description="What helps.")]

    @classmethod
    def of(cls, found: Found) -> "Finding":
        return cls(
            check=found.check,
            level=found.level,
            said=redacted(found.said),
            fix=redacted(found.fix) or None,
        )


class Doctor(Said, frozen=True):
    """What is around the store."""

    ok: Annotated[bool, Meta(description="No check found a problem.")]
    findings: list[Finding]


class Setting(Said, frozen=True):
    """A setting of the web process, and where its value comes from."""

    name: str
    value: Any
    origin: str
    about: str
