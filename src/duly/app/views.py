"""Schedules and their due moments, as people see them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duly.model import fire as model
from duly.model import schedule as stored
from duly.rules.on import BEGINNING
from duly.store.protocol import RunTimes, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """A due moment of a schedule, what became of it, and why."""

    id: int
    schedule: str
    due_at: datetime
    outcome: str  # "queued", "merged", "skipped"
    reason: str
    job_id: int | None
    decided_at: datetime
    covers_from: datetime  # a row may stand for many moments, from here to due_at
    count: int | None  # so many; None: too many to be counted
    manual: bool  # somebody asked for it; neither the clock nor an event did
    # Of its job, where history is told:
    state: str | None = None
    started_at: datetime | None = None  # for the first time
    took: timedelta | None = None  # the last run, if it has ended
    event: int | None = None  # that made it due

    @property
    def lateness(self) -> timedelta | None:
        """How long after its moment it was begun; None: it was not, or not yet.

        An event says when its reaction is to begin, and that is not when it happened.
        """
        if self.started_at is None or self.event is not None:
            return None
        return self.started_at - self.due_at

    @classmethod
    def of(cls, fire: model.Fire, schedule: str, *, reacts: bool = False) -> "Fire":
        return cls(
            id=fire.id,
            schedule=schedule,
            due_at=fire.due_at,
            outcome=fire.outcome.value,
            reason=fire.reason,
            job_id=fire.job_id,
            decided_at=fire.decided_at,
            covers_from=fire.covers_from,
            count=fire.count,
            manual=fire.series != model.CLOCK and not reacts,
            event=fire.series if reacts else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A rule about time, what it runs, and where it stands."""

    name: str
    rule: str
    zone: str | None  # None: the rule names its own, or needs none
    task: str
    args: str  # JSON
    title: str
    queue: str
    tags: tuple[str, ...]
    owner: str  # "code", "file", "api", "person"
    paused: bool
    paused_until: datetime | None
    note: str  # why it is paused, or why it stands still
    next_at: datetime | None
    created_at: datetime
    last: Fire | None  # the latest moment that was dealt with
    plan: stored.Plan  # everything that was asked for

    @classmethod
    def of(cls, schedule: stored.Schedule, last: model.Fire | None) -> "Schedule":
        plan, pause = schedule.plan, schedule.pause
        return cls(
            name=plan.name,
            rule=plan.rule,
            zone=plan.zone,
            task=plan.task,
            args=plan.args,
            title=plan.title,
            queue=plan.queue,
            tags=plan.tags,
            owner=plan.owner.value,
            paused=pause is not None,
            paused_until=None if pause is None else pause.until,
            note=schedule.fault or ("" if pause is None else pause.note),
            next_at=schedule.next_at,
            created_at=schedule.created_at,
            last=None if last is None else Fire.of(last, plan.name, reacts=reacts(plan)),
            plan=plan,
        )


def fires(found: Iterable[model.Fire], schedule: str, *, reacts: bool = False) -> list[Fire]:
    return [Fire.of(fire, schedule, reacts=reacts) for fire in found]


async def history(store: Store, found: Sequence[model.Fire], schedule: str) -> list[Fire]:
    """What became of moments, and of their jobs."""
    told = fires(found, schedule, reacts=await made_by_events(store, found))
    jobs = [fire.job_id for fire in told if fire.job_id is not None]
    runs = await store.evidence.runs_of(jobs) if jobs else {}
    return [with_run(fire, runs.get(fire.job_id or 0)) for fire in told]


async def made_by_events(store: Store, found: Sequence[model.Fire]) -> bool:
    """Asked only where it may be so: what the clock makes due, it says itself."""
    beside = next((fire for fire in found if fire.series != model.CLOCK), None)
    schedule = None if beside is None else await store.evidence.schedule(beside.schedule_id)
    return schedule is not None and reacts(schedule.plan)


def reacts(plan: stored.Plan) -> bool:
    """Whether events make it due, and not the clock."""
    return plan.rule.startswith(BEGINNING)


def with_run(fire: Fire, run: RunTimes | None) -> Fire:
    if run is None:
        return fire
    took = None
    if run.started_at is not None and run.ended_at is not None:
        took = run.ended_at - run.started_at
    return replace(fire, state=run.state.value, started_at=run.first_at, took=took)
