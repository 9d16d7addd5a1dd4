"""A flow as it is shown: its steps, how far each is, and its critical path.

Steps and parts are counted from 1 here; the store counts them from 0.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Final, Literal

from msgspec import Meta

from duly.durations import SECOND, parse_duration
from duly.errors import NotFound, WrongState
from duly.model.event import read_awaited
from duly.model.flow import FlowInfo, FlowProgress, Rest, StepInfo, StepState, When
from duly.model.job import StoredJob
from duly.model.states import WAITING, State
from duly.policy.redaction import redacted
from duly.policy.why import Lineage, first_failed, how_far
from duly.store.records import JobRecord
from duly.store.store import Store
from duly.views import Listed, Text, duration, filled
from duly.views.access import own_job, own_record

AWAITING: Final = "waits for an event"
# Each state has a shape besides its colour, for readers who cannot tell colours apart.
MARKS: Final = {
    "waiting": "○", "running": "◐", "succeeded": "●", "failed": "✕", "cancelled": "⊘",
    "skipped": "↷", "ready": "○", "scheduled": "◷", "blocked": "◫", AWAITING: "◫",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaits:
    """The event that a step waits for: `POST /events` answers it."""

    event: str
    key: Annotated[str | None, Meta(description="The key that the event must have.")]
    until: datetime | None

    @classmethod
    def of(cls, job: StoredJob | None) -> "Awaits | None":
        """Return the event that a job waits for; None if it waits for none."""
        if job is None or job.waits != "event" or job.waits_for is None:
            return None
        event, key = read_awaited(job.waits_for)
        return cls(event=event, key=key, until=job.deadline)

    @classmethod
    def shown(cls, job: StoredJob | None) -> "Awaits | None":
        """Return the same as ``of``, with secrets in the key hidden."""
        found = cls.of(job)
        if found is None or found.key is None:
            return found
        return replace(found, key=redacted(found.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """A step of a flow."""

    number: Annotated[int, Meta(description="From 1, in an order in which they could run.")]
    name: Text
    task: str
    kind: Annotated[
        Literal["step", "map", "wait"],
        Meta(description="One job; one for each item of a list; or it waits for an event."),
    ]
    state: StepState
    before: Annotated[tuple[int, ...], Meta(description="The steps that it depends on.")]
    when: Annotated[When, Meta(description="What those must have come to.")]
    if_failed: Annotated[Rest, Meta(description="What becomes of the rest, if it fails.")]
    critical: Annotated[bool, Meta(description="It is on the critical path.")]
    parts: Annotated[int, Meta(description="How many jobs it is made of, once it has started.")]
    remaining: Annotated[int, Meta(description="Of its parts, those that have not ended.")]
    missed: Annotated[int, Meta(description="Of its parts, those that did not succeed.")]
    stopped: Annotated[int, Meta(description="Of its parts, those cancelled with the flow.")]
    reason: Text
    started_at: datetime | None
    ended_at: datetime | None
    took: Annotated[str | None, Meta(description="Or has taken so far.")]
    job_id: Annotated[int | None, Meta(description="The job of its first part.")]
    job_state: Annotated[State | None, Meta(description="Of its job, while that is in progress.")]
    flow: Annotated[FlowProgress | None, Meta(description="Its progress, if it is a flow itself.")]
    awaits: Awaits | None

    @property
    def is_map(self) -> bool:
        return self.kind == "map"

    @property
    def length(self) -> timedelta | None:
        return None if self.took is None else parse_duration(self.took)

    @property
    def word(self) -> str:
        """The state of the step for display: the job of a running step may still be queued."""
        if self.state is not StepState.RUNNING:
            return str(self.state)
        if self.kind == "wait":
            return AWAITING
        return str(self.job_state) if self.job_state in WAITING else "running"

    @property
    def mark(self) -> str:
        return MARKS[self.word]

    @property
    def done(self) -> int:
        """The number of parts that have succeeded."""
        return self.parts - self.remaining - self.missed - self.stopped

    @property
    def progress(self) -> str:
        """``7/10`` of its parts; of a flow, ``2/4 steps``."""
        if self.is_map and self.started_at is not None:
            return f"{self.done:,}/{self.parts:,}"
        return "" if self.flow is None else flow_progress(self.flow)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowView(FlowProgress):
    """A flow and its steps."""

    id: int
    sentence: Annotated[str, Meta(examples=["3 of 5 steps are done"])]
    summary: Annotated[str, Meta(examples=["3 of 5 done"])]
    first_failed: Annotated[int | None, Meta(description="The step that failed first.")]
    opened_at: datetime
    ended_at: datetime | None
    items: tuple[StepView, ...]

    @property
    def critical(self) -> list[StepView]:
        """The steps of the critical path."""
        return [step for step in self.items if step.critical]

    def names(self, numbers: Sequence[int]) -> list[str]:
        return [self.items[number - 1].name for number in numbers]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """One of the jobs of a step."""

    part: int
    job_id: int
    state: Annotated[str, Meta(description="running, until it has ended.")]


async def flow_detail(store: Store, number: int, *, tenant: str | None = None) -> FlowView:
    """Return a flow by the number of its job."""
    record = await own_record(store, number, tenant)
    if record.flow is None:
        raise _no_flow(record.job)
    return flow_view(record.flow, record.now, record.step_jobs, record.inner_flows)


async def step_parts(
    store: Store, number: int, step: int, *, after: int, limit: int, tenant: str | None = None
) -> Listed[PartView]:
    """Return the jobs of a step, starting after a part."""
    job = await own_job(store, number, tenant)
    flow = await store.jobs.flow(number)
    if flow is None:
        raise _no_flow(job)
    if not 1 <= step <= len(flow.steps):
        raise NotFound(f"flow {number} has no such step: they are numbers, 1 to {len(flow.steps)}")
    found = await store.jobs.parts(number, step - 1, after=after - 1, limit=limit)
    parts = [PartView(part=one.part + 1, job_id=one.job_id, state=one.state) for one in found]
    return Listed(items=parts, next=str(parts[-1].part) if len(parts) == limit else None)


def flow_view(
    flow: FlowInfo,
    now: datetime,
    step_jobs: Sequence[StoredJob] = (),
    inner_flows: Mapping[int, FlowProgress] = MappingProxyType({}),
) -> FlowView:
    """Return a flow as a view, with details of the jobs of its steps."""
    critical = critical_path(flow.steps, now)
    jobs = {job.id: job for job in step_jobs}
    failed = first_failed(flow)
    return filled(
        FlowView,
        flow,
        steps=len(flow.steps),
        sentence=how_far(flow),
        summary=how_far(flow, brief=True),
        first_failed=None if failed is None else failed.number + 1,
        items=tuple(
            _step_view(
                step,
                now=now,
                critical=step.number in critical,
                job=jobs.get(step.job_id or 0),
                inner=inner_flows.get(step.job_id or 0),
            )
            for step in flow.steps
        ),
    )


def _step_view(
    step: StepInfo,
    *,
    now: datetime,
    critical: bool,
    job: StoredJob | None,
    inner: FlowProgress | None,
) -> StepView:
    return filled(
        StepView,
        step,
        number=step.number + 1,
        before=tuple(number + 1 for number in step.before),
        critical=critical,
        took=duration(_took(step, now)),
        job_state=None if job is None else job.state,
        flow=inner,
        awaits=Awaits.shown(job),
    )


def lineage_of(record: JobRecord) -> Lineage | None:
    """Return the flow that a job is a step of; None if it is not, or the flow is forgotten."""
    job, flow, parent = record.job, record.parent_flow, record.parent
    if flow is None or parent is None or job.step is None or job.step >= len(flow.steps):
        return None
    step = flow.steps[job.step]
    return Lineage(
        flow=parent.id,
        flow_name=redacted(parent.title or parent.task),
        step=job.step + 1,
        name=redacted(step.name),
        kind=step.kind,
        part=(job.part or 0) + 1 if step.kind == "map" else None,
        parts=step.parts,
    )


def flow_progress(flow: FlowProgress) -> str:
    """Progress of a flow in a list: ``3/5 steps``; ``1 of 5 steps failed``; ``5 steps``."""
    steps = f"{flow.steps:,} step{'s' * (flow.steps != 1)}"
    if flow.failed:
        return f"{flow.failed:,} of {steps} failed"
    return f"{flow.steps - flow.remaining:,}/{steps}" if flow.remaining else steps


def critical_path(steps: Sequence[StepInfo], now: datetime) -> frozenset[int]:
    """The step that ended last, or goes on, and before each step the one it waited for longest.

    A step that was cancelled, or never began, was not waited for, but the steps before it were. Of
    several that ended together, the one that goes on, or else the last. Numbers are the store's.
    """
    ends = {
        step.number: step.ended_at or now
        for step in steps
        if step.started_at is not None and step.state is not StepState.CANCELLED
    }
    found: set[int] = set()
    among: Iterable[int] = ends
    while among:
        last = max(among, key=lambda n: (ends[n], steps[n].ended_at is None, n))
        found.add(last)
        among = _waited_for(last, steps, among=ends)
    return frozenset(found)


def _waited_for(number: int, steps: Sequence[StepInfo], among: Container[int]) -> list[int]:
    """Return the nearest predecessors of a step that are in the given set, on every path."""
    found: list[int] = []
    asked, seen = list(steps[number].before), set(steps[number].before)
    while asked:
        one = asked.pop()
        if one in among:
            found.append(one)
            continue
        asked += [before for before in steps[one].before if before not in seen]
        seen.update(steps[one].before)
    return found


def _took(step: StepInfo, now: datetime) -> timedelta | None:
    """Return the duration of a step; in whole seconds while it runs."""
    if step.started_at is None:
        return None
    if step.ended_at is not None:
        return max(step.ended_at - step.started_at, timedelta())
    return max(now - step.started_at, timedelta()) // SECOND * SECOND


def _no_flow(job: StoredJob) -> WrongState:
    return WrongState(f"job {job.id} ({job.task}) has no steps: it is no flow, or has not begun")
