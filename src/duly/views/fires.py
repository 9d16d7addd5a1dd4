"""Scheduled runs (fires): one row of the ledger each, and their results in numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from duly.model.fire import CLOCK, Cause, Outcome, StoredFire
from duly.model.schedule import Plan
from duly.model.states import ENDED, State
from duly.rules.event_rule import BEGINNING
from duly.store.activity import Tally
from duly.store.store import Store
from duly.store.values import RunTimes
from duly.views import FilledView, Length, Text, filled

RunResult: TypeAlias = Literal["succeeded", "late", "in progress", "overdue", "failed", "none"]

LATE = timedelta(minutes=1)  # a run that starts later than this counts as late

# Causes for which a moment was skipped on purpose.
_ON_PURPOSE = (Cause.PAUSED, Cause.EXCLUDED, Cause.ASKED, Cause.MISSED, Cause.WITHDRAWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Scheduled runs by result. Merged and skipped ones are not counted as due."""

    succeeded: int = 0
    late: int = 0  # included in succeeded
    in_progress: int = 0
    failed: int = 0
    overdue: int = 0  # no scheduler has fired them
    merged: int = 0  # another run stands for them: it is counted, and they are not
    skipped: int = 0  # skipped on purpose, or cancelled: not counted as due

    @property
    def due(self) -> int:
        return self.succeeded + self.in_progress + self.failed + self.overdue

    @property
    def parts(self) -> "Mapping[RunResult, int]":
        """Return the runs that were due, counted by outcome, the best outcome first."""
        return {
            "succeeded": self.succeeded - self.late,
            "late": self.late,
            "in progress": self.in_progress,
            "overdue": self.overdue,
            "failed": self.failed,
        }

    @classmethod
    def total(cls, parts: "Iterable[Counts]") -> "Counts":
        parts = list(parts)
        names = (field.name for field in fields(cls))
        return cls(**{name: sum(getattr(part, name) for part in parts) for name in names})


def result_of(
    outcome: Outcome, cause: Cause | None, state: State | None, *, late: bool = False
) -> RunResult:
    """Return the result of a run in a word; ``none`` if it was left out on purpose.

    A run whose job was deleted by retention does not count as failed.
    """
    if outcome is Outcome.MERGED:
        return "none"  # the run that stands for it has a word of its own
    if outcome is Outcome.SKIPPED:
        return "none" if cause in _ON_PURPOSE else "failed"
    if state in (State.FAILED, State.EXPIRED):
        return "failed"
    if state is State.CANCELLED:
        return "none"
    if state is not None and state not in ENDED:
        return "in progress"
    return "late" if late else "succeeded"


def counted(tallies: Iterable[Tally]) -> Counts:
    found: Counter[RunResult] = Counter()
    merged = 0
    for tally in tallies:
        if tally.outcome is Outcome.MERGED:
            merged += tally.moments
            continue
        word = result_of(tally.outcome, tally.cause, tally.state)
        found[word] += tally.moments
        found["late"] += tally.late if word == "succeeded" else 0
    return Counts(
        succeeded=found["succeeded"],
        late=found["late"],
        in_progress=found["in progress"],
        failed=found["failed"],
        merged=merged,
        skipped=found["none"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """A due moment of a schedule, its outcome, and the reason."""

    id: int
    schedule: str
    due_at: datetime
    outcome: str  # "queued", "merged", "skipped"
    reason: str
    job_id: int | None
    decided_at: datetime
    covers_from: datetime  # a row may stand for many moments, from here to due_at
    count: int | None  # how many; None: too many to count
    manual: bool  # a user requested it, not the clock or an event
    # Of its job, in a history:
    state: str | None = None
    started_at: datetime | None = None  # for the first time
    took: timedelta | None = None  # the last run, if it has ended
    event: int | None = None  # that made it due

    @property
    def lateness(self) -> timedelta | None:
        """The time from the due moment to the start; None if the run has not started.

        Also None for a reaction: it may be meant to begin later than its event.
        """
        if self.started_at is None or self.event is not None:
            return None
        return self.started_at - self.due_at

    @classmethod
    def of(cls, fire: StoredFire, schedule: str, *, reacts: bool = False) -> "Fire":
        return filled(
            cls,
            fire,
            schedule=schedule,
            outcome=fire.outcome.value,
            manual=fire.series != CLOCK and not reacts,
            event=fire.series if reacts else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FireView(FilledView):
    """A scheduled run: when it was due, its outcome, and why."""

    due_at: datetime
    outcome: Literal["queued", "merged", "skipped"]
    reason: Text
    job_id: int | None
    decided_at: datetime
    covers_from: Annotated[
        datetime, Meta(description="One row may stand for many runs, due from here to due_at.")
    ]
    count: Annotated[int | None, Meta(description="How many; null if too many to count.")]
    manual: Annotated[bool, Meta(description="Requested by hand, not by the clock.")]
    event: Annotated[int | None, Meta(description="The event that made it due.")]
    state: Annotated[str | None, Meta(description="The state of its job.")]
    started_at: datetime | None
    lateness: Annotated[Length | None, Meta(description="From due_at to started_at.")]
    took: Annotated[Length | None, Meta(description="The duration of its last run.")]


def fires(found: Iterable[StoredFire], schedule: str, *, reacts: bool = False) -> list[Fire]:
    return [Fire.of(fire, schedule, reacts=reacts) for fire in found]


async def with_runs(store: Store, found: Sequence[StoredFire], schedule: str) -> list[Fire]:
    """Return the fires of a schedule together with the state of their jobs."""
    told = fires(found, schedule, reacts=await made_by_events(store, found))
    jobs = [fire.job_id for fire in told if fire.job_id is not None]
    runs = await store.activity.runs_of(jobs) if jobs else {}
    return [with_run(fire, runs.get(fire.job_id or 0)) for fire in told]


def fires_of(found: Iterable[StoredFire], runs: Mapping[int, RunTimes], plan: Plan) -> list[Fire]:
    """Return rows of the ledger with the times of their jobs."""
    told = fires(found, plan.name, reacts=reacts(plan))
    return [with_run(fire, runs.get(fire.job_id or 0)) for fire in told]


async def made_by_events(store: Store, found: Sequence[StoredFire]) -> bool:
    """Return whether events made these fires.

    The store is asked only if one is not from the clock.
    """
    beside = next((fire for fire in found if fire.series != CLOCK), None)
    schedule = None if beside is None else await store.activity.schedule(beside.schedule_id)
    return schedule is not None and reacts(schedule.plan)


def reacts(plan: Plan) -> bool:
    """Return whether events trigger the plan, instead of the clock."""
    return plan.rule.startswith(BEGINNING)


def with_run(fire: Fire, run: RunTimes | None) -> Fire:
    if run is None:
        return fire
    return replace(fire, state=run.state.value, started_at=run.first_at, took=run.took)


async def history(
    store: Store, name: str, *, since: datetime | None, until: datetime | None, limit: int
) -> Sequence[Fire]:
    rows = await store.ledger.fires(name, since=since, until=until, limit=limit)
    return await with_runs(store, rows, name)
