"""Schedules as they are sent and answered."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from duly.errors import DulyError
from duly.model.fire import Backfill
from duly.policy.redaction import hidden_call, redacted
from duly.views import duration
from duly.views.fires import Fire
from duly.views.schedules import Schedule as View
from duly.web.api.schemas.common import Body, Duration, Limit, Said, Since, When
from duly.web.api.schemas.jobs import Arguments, Priority

MOST_MOMENTS = 1_000

Rule: TypeAlias = Annotated[
    str,
    Meta(
        description="A cron line, a calendar expression, an interval, a moment or a recurrence.",
        examples=["Mon..Fri 02:00 Europe/Berlin"],
    ),
]
Overlap: TypeAlias = Annotated[
    Literal["skip", "queue_one", "queue_all", "replace", "allow"],
    Meta(description="What to do while the run before has not ended."),
]
Missed: TypeAlias = Annotated[
    Literal["latest", "all", "skip"], Meta(description="What to do with moments nobody saw.")
]
AtMost: TypeAlias = Annotated[
    int, Meta(ge=1, le=1_000_000, description='With missed="all": so many, the newest.')
]
Late: TypeAlias = Annotated[
    Literal["skip", "run", "hurry"], Meta(description="What to do when start_within has passed.")
]
Dst: TypeAlias = Annotated[
    str, Meta(description="What clock changes do: cron, systemd, elapsed, quartz, or GAP/FOLD.")
]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_MOMENTS)]


class PolicyFields(Body, frozen=True, kw_only=True):
    """What may be said beside the rule and the task. What is left out stays, or is the default."""

    zone: Annotated[
        str | UnsetType | None, Meta(description="Of the rule, if that names none.")
    ] = UNSET
    overlap: Overlap | UnsetType = UNSET
    missed: Missed | UnsetType = UNSET
    at_most: AtMost | UnsetType = UNSET
    spacing: Duration | UnsetType | None = UNSET
    start_within: Duration | UnsetType | None = UNSET
    late: Late | UnsetType = UNSET
    dst: Dst | UnsetType = UNSET
    exclude: Annotated[
        str | UnsetType | None, Meta(description="A rule, or holidays(DE-BE): not then.")
    ] = UNSET
    jitter: Duration | UnsetType | None = UNSET
    start: Annotated[str | UnsetType | None, Meta(description="Nothing is due before.")] = UNSET
    end: Annotated[str | UnsetType | None, Meta(description="Nothing is due after.")] = UNSET
    queue: str | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    title: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET


class Add(PolicyFields, frozen=True, kw_only=True):
    """A new schedule: a rule, and the task that it runs."""

    name: Annotated[str, Meta(min_length=1)]
    rule: Rule
    task: Annotated[str, Meta(min_length=1)]
    args: Arguments = field(default_factory=dict)
    if_exists: Annotated[
        Literal["error", "replace", "keep"], Meta(description="If there is one of that name.")
    ] = "error"


class ScheduleEdit(PolicyFields, frozen=True, kw_only=True):
    """What is to be otherwise. Of arguments, *** is the hidden value if no other changes."""

    rule: Rule | UnsetType = UNSET
    args: Arguments | UnsetType = UNSET


class ScheduleQuery(Body, frozen=True):
    """Which schedules, and how many."""

    filter: Annotated[
        str, Meta(description="As state:paused owner:code start:event nightly. Empty: all.")
    ] = ""
    after: Annotated[str, Meta(description="Behind this name: the `next` of the part before.")] = ""
    limit: Limit = 100


class PauseBody(Body, frozen=True):
    """How long, and why."""

    until: When | None = None
    note: str = ""
    catch_up: Annotated[
        bool, Meta(description="Treat what is due meanwhile as missed, instead of skipping it.")
    ] = False


class SkipNext(Body, frozen=True):
    """How many moments are left out."""

    count: Annotated[int, Meta(ge=1, le=100)] = 1


class RunBody(Body, frozen=True):
    """Other arguments than the schedule has.

    With them, a job of the schedule's task is enqueued beside the schedule, whatever still runs.
    """

    args: Arguments | None = None


class Backfilling(Body, frozen=True):
    """Which moments that have passed are run now: from `start` up to, and not with, `end`."""

    start: Annotated[str, Meta(examples=["2026-03-05T00:00:00Z"])]
    end: Annotated[str, Meta(examples=["2026-03-06T00:00:00Z"])]
    dry_run: Annotated[bool, Meta(description="Say what would be done.")] = False
    again: Annotated[bool, Meta(description="Also those that have run.")] = False


class HistoryQuery(Body, frozen=True):
    """Which due moments."""

    since: Since | None = None
    until: Annotated[Since | None, Meta(description="Before then: the `next` of a part.")] = None
    limit: Limit = 100


class PreviewQuery(Body, frozen=True):
    """How many moments."""

    count: Count = 10


class WhyQuery(Body, frozen=True):
    """Which moment; without any, the last."""

    at: Annotated[
        str | None,
        Meta(description="A time, as 02:00, yesterday 02:00 or 2026-03-05T02:00:00Z."),
    ] = None


class RuleQuery(Body, frozen=True):
    """A rule that somebody thinks about."""

    rule: Rule
    zone: str | None = None
    count: Count = 10
    dst: Dst = "cron"


class Due(Said, frozen=True):
    """A due moment of a schedule, what became of it, and why."""

    due_at: datetime
    outcome: Literal["queued", "merged", "skipped"]
    reason: str
    job_id: int | None
    decided_at: datetime
    covers_from: Annotated[datetime, Meta(description="It may stand for many, from here on.")]
    count: Annotated[int | None, Meta(description="For so many; null: too many to count.")]
    manual: Annotated[bool, Meta(description="Somebody asked for it; the clock did not.")]
    event: Annotated[int | None, Meta(description="That made it due.")]
    state: Annotated[str | None, Meta(description="Of its job.")]
    started_at: datetime | None
    lateness: Annotated[str | None, Meta(description="How long after its moment it was begun.")]
    took: str | None

    @classmethod
    def of(cls, fire: Fire) -> "Due":
        return cls(
            due_at=fire.due_at,
            outcome=fire.outcome,  # type: ignore[arg-type] # one of the three
            reason=redacted(fire.reason),
            job_id=fire.job_id,
            decided_at=fire.decided_at,
            covers_from=fire.covers_from,
            count=fire.count,
            manual=fire.manual,
            event=fire.event,
            state=fire.state,
            started_at=fire.started_at,
            lateness=duration(fire.lateness),
            took=duration(fire.took),
        )


class Schedule(Said, frozen=True):
    """A rule about time, what it runs, and where it stands; secrets are hidden."""

    name: str
    rule: str
    zone: str | None
    sentence: Annotated[str, Meta(description="The rule in words.")]
    task: str
    args: Any
    title: str
    queue: str
    priority: int
    tags: list[str]
    owner: Literal["code", "file", "api", "person"]
    policies: Annotated[dict[str, Any], Meta(description="What differs from the defaults.")]
    paused: bool
    paused_until: datetime | None
    note: Annotated[str, Meta(description="Why it is paused, or why it stands still.")]
    next_at: datetime | None
    created_at: datetime
    last: Due | None

    @classmethod
    def of(cls, found: View) -> "Schedule":
        return cls(
            name=found.name,
            rule=found.rule,
            zone=found.zone,
            sentence=_sentence(found),
            task=found.task,
            args=hidden_call(found.task, json.loads(found.args)),
            title=redacted(found.title),
            queue=found.queue,
            priority=found.plan.priority,
            tags=list(found.tags),
            owner=found.owner,  # type: ignore[arg-type] # one of the four
            policies=_policies(found),
            paused=found.paused,
            paused_until=found.paused_until,
            note=redacted(found.note),
            next_at=found.next_at,
            created_at=found.created_at,
            last=None if found.last is None else Due.of(found.last),
        )


class Skipped(Said, frozen=True):
    """The moments that were skipped, or taken back."""

    moments: list[datetime]


class Moment(Said, frozen=True):
    """A moment, and what the clock on the wall says then."""

    at: datetime
    local: str


class Moments(Said, frozen=True):
    """When a rule is due."""

    sentence: str
    zone: str | None
    items: list[Moment]
    notes: Annotated[list[str], Meta(description="What clock changes will do to it.")]
    next: None = None


class Change(Said, frozen=True):
    """A change of a schedule."""

    at: datetime
    by: str
    what: str


class LeftAlone(Said, frozen=True):
    """A moment that has had a job of its own before."""

    due_at: datetime
    job_id: int | None
    reason: str


class Backfilled(Said, frozen=True):
    """What became of the moments, or would become of them."""

    schedule: str
    start: datetime
    end: datetime
    queued: list[datetime]
    jobs: Annotated[list[int], Meta(description="In their order; none in a dry run.")]
    left_alone: list[LeftAlone]
    forgotten: Annotated[
        list[datetime], Meta(description="Of those queued: perhaps they have run, long ago.")
    ]
    notes: list[str]
    dry_run: bool

    @classmethod
    def of(cls, done: Backfill) -> "Backfilled":
        return cls(
            schedule=done.schedule,
            start=done.start,
            end=done.end,
            queued=list(done.queued),
            jobs=list(done.jobs),
            left_alone=[
                LeftAlone(due_at=one.due_at, job_id=one.job_id, reason=one.reason)
                for one in done.left_alone
            ],
            forgotten=list(done.forgotten),
            notes=list(done.notes),
            dry_run=done.dry_run,
        )


def _policies(found: View) -> dict[str, Any]:
    """What differs from the defaults."""
    policies: dict[str, Any] = json.loads(found.plan.policies.as_json())
    retry = policies.get("retry")
    return policies if retry is None else policies | {"retry": json.loads(retry)}


def _sentence(found: View) -> str:
    try:
        return found.plan.kept.explain()
    except DulyError as error:
        return f"This version of duly cannot read it: {error}"
