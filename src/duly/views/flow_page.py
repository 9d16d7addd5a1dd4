"""A flow as somebody sees it: its steps, how far each is, and which of them decide when it ends.

Made once for whoever shows it: the command, the HTTP API and the page of its job. Steps and parts
are counted from 1 there, as people do.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from duly.errors import NotFound, WrongState
from duly.model.event import read_awaited
from duly.model.flow import FlowInfo, FlowProgress, PartInfo, StepInfo, StepState
from duly.model.job import Job
from duly.model.states import State
from duly.policy.why import Lineage, first_failed, how_far, parts_done
from duly.store.store import Store
from duly.views.tenancy import own_job

MOST_LOOKED_INTO: Final = 20  # of the steps under way, whose jobs say more
AWAITING: Final = "waits for an event"
# Beside its colour, each state has a shape: nobody has to tell colours apart.
MARKS: Final = {
    "waiting": "○", "running": "◐", "succeeded": "●", "failed": "✕", "cancelled": "⊘",
    "skipped": "↷", "ready": "○", "scheduled": "◷", "blocked": "◫", AWAITING: "◫",
}  # fmt: skip
_SECOND: Final = timedelta(seconds=1)


class Awaits(NamedTuple):
    """The event that a step waits for."""

    event: str
    key: str | None
    until: datetime | None

    @classmethod
    def of(cls, job: Job) -> "Awaits | None":
        if job.waits != "event" or job.waits_for is None:
            return None
        return cls(*read_awaited(job.waits_for), job.deadline)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeen:
    info: StepInfo
    took: timedelta | None  # or has taken so far
    is_critical: bool
    job: Job | None = None  # of a step under way that is one job
    inner: FlowProgress | None = None  # of one that is a flow itself

    @property
    def number(self) -> int:
        return self.info.number + 1

    @property
    def before(self) -> tuple[int, ...]:
        return tuple(number + 1 for number in self.info.before)

    @property
    def is_map(self) -> bool:
        return self.info.kind == "map"

    @property
    def awaits(self) -> Awaits | None:
        return None if self.job is None else Awaits.of(self.job)

    @property
    def word(self) -> str:
        """Its state as people read it: what is under way may be in its queue still."""
        if self.info.state is not StepState.RUNNING:
            return str(self.info.state)
        if self.info.kind == "wait":
            return AWAITING
        waits = self.job is not None and self.job.state in (
            State.READY,
            State.SCHEDULED,
            State.BLOCKED,
        )
        return str(self.job.state) if waits and self.job is not None else "running"

    @property
    def mark(self) -> str:
        return MARKS[self.word]

    @property
    def done(self) -> int:
        """How many of its parts have succeeded."""
        return parts_done(self.info)

    @property
    def far(self) -> str:
        """``7/10`` of its parts; of a flow, ``2/4 steps``."""
        if self.is_map and self.info.started_at is not None:
            return f"{self.done:,}/{self.info.parts:,}"
        return "" if self.inner is None else told_far(self.inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSeen:
    info: FlowInfo
    steps: Sequence[StepSeen]

    @property
    def told(self) -> str:
        """``3 of 5 steps are done``."""
        return how_far(self.info)

    @property
    def told_briefly(self) -> str:
        """Below a heading: ``3 of 5 done``."""
        return how_far(self.info, brief=True)

    @property
    def first_failed(self) -> StepSeen | None:
        failed = first_failed(self.info)
        return None if failed is None else self.steps[failed.number]

    @property
    def critical(self) -> list[StepSeen]:
        """The steps that decided when it ended, or how long it takes so far."""
        return [step for step in self.steps if step.is_critical]

    def names(self, numbers: Sequence[int]) -> list[str]:
        return [self.steps[number - 1].info.name for number in numbers]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPage:
    """Some of the jobs of a step; ``after`` is what the next are asked for with."""

    parts: Sequence[PartInfo]
    after: int | None


async def flow_seen(store: Store, number: int, *, now: datetime) -> FlowSeen | None:
    """None: it is no flow, or nobody has begun it."""
    info = await store.jobs.flow(number)
    if info is None:
        return None
    numbers = [step.job_id for step in info.steps if step.kind == "step" and step.job_id]
    inner = await store.jobs.flow_progress(numbers) if numbers else {}
    jobs = await _under_way(store, info)
    seen = seen_at(info, now)
    return replace(
        seen,
        steps=[
            replace(
                step, job=jobs.get(step.info.job_id or 0), inner=inner.get(step.info.job_id or 0)
            )
            for step in seen.steps
        ],
    )


def seen_at(info: FlowInfo, now: datetime) -> FlowSeen:
    """What the steps say by themselves."""
    critical = critical_path(info.steps, now)
    steps = [
        StepSeen(info=step, took=_took(step, now), is_critical=step.number in critical)
        for step in info.steps
    ]
    return FlowSeen(info=info, steps=steps)


def critical_path(steps: Sequence[StepInfo], now: datetime) -> frozenset[int]:
    """What ended last, or goes on, and before each step the one that it waited for longest.

    What was cancelled, or never began, was not waited for, but what was before it. Of several that
    ended together, the one that goes on, or else the last. Numbers are those of the store.
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


async def own_flow(store: Store, number: int, *, tenant: str | None = None) -> FlowSeen:
    job = await own_job(store, number, tenant)
    found = await flow_seen(store, number, now=(await store.upkeep.progress()).now)
    if found is None:
        raise WrongState(f"job {number} ({job.task}) has no steps: it is no flow, or has not begun")
    return found


async def own_parts(
    store: Store, number: int, step: int, *, after: int, limit: int, tenant: str | None = None
) -> PartPage:
    """The jobs of a step behind a part; both counted from 1."""
    found = await own_flow(store, number, tenant=tenant)
    if not 1 <= step <= len(found.steps):
        raise NotFound(f"flow {number} has no such step: they are numbers, 1 to {len(found.steps)}")
    parts = await store.jobs.parts(number, step - 1, after=after - 1, limit=limit)
    return PartPage(parts=parts, after=parts[-1].part + 1 if len(parts) == limit else None)


async def lineage_of(store: Store, job: Job) -> Lineage | None:
    """The flow that a job is a step of, if it is one and that is remembered."""
    if job.step is None or job.parent is None:
        return None
    info = await store.jobs.flow(job.parent)
    if info is None or job.step >= len(info.steps):
        return None
    try:
        flow = await store.jobs.get(job.parent)
    except NotFound:
        return None
    step = info.steps[job.step]
    return Lineage(
        flow=flow.id,
        flow_name=flow.title or flow.task,
        step=job.step + 1,
        name=step.name,
        kind=step.kind,
        part=(job.part or 0) + 1 if step.kind == "map" else None,
        parts=step.parts,
    )


def told_far(flow: FlowProgress) -> str:
    """How far a flow is, in a list: ``3/5 steps``; ``1 of 5 steps failed``; ``5 steps``."""
    steps = f"{flow.steps:,} step{'s' * (flow.steps != 1)}"
    if flow.failed:
        return f"{flow.failed:,} of {steps} failed"
    return f"{flow.steps - flow.remaining:,}/{steps}" if flow.remaining else steps


def _waited_for(number: int, steps: Sequence[StepInfo], among: Container[int]) -> list[int]:
    """The nearest before a step that are among some, on every way."""
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


async def _under_way(store: Store, info: FlowInfo) -> Mapping[int, Job]:
    """The jobs of the first few steps that have started and not ended."""
    numbers = [
        step.job_id
        for step in info.steps
        if step.state is StepState.RUNNING and step.kind != "map" and step.job_id is not None
    ]
    found: dict[int, Job] = {}
    for number in numbers[:MOST_LOOKED_INTO]:
        try:
            found[number] = await store.jobs.get(number)
        except NotFound:  # it has ended, and was forgotten, meanwhile
            continue
    return found


def _took(step: StepInfo, now: datetime) -> timedelta | None:
    """In whole seconds, while it goes on."""
    if step.started_at is None:
        return None
    if step.ended_at is not None:
        return max(step.ended_at - step.started_at, timedelta())
    return max(now - step.started_at, timedelta()) // _SECOND * _SECOND
