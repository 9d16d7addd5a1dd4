"""Schedules as they are sent and answered."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

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
MaxRuns: TypeAlias = Annotated[
    int, Meta(ge=1, description="At most so many runs from now on; then it is finished.")
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
    max_runs: MaxRuns | UnsetType | None = UNSET
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


class RewindBody(Body, frozen=True):
    """From when runs are decided again; runs that were fired are not fired twice."""

    to: Annotated[Since | None, Meta(description="null: go on from now.")] = None


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


class Skipped(Said, frozen=True):
    """The moments that were skipped, or taken back."""

    moments: list[datetime]
