"""A fire: a due moment of a schedule with its outcome and reason; one row of the ledger.

A row may cover many moments: a year of missed seconds is one row. It then covers ``count`` moments
from ``covers_from`` to ``due_at``. Exactly one row covers each due moment. A backfill makes fires
for past moments because a person asked for them.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

# The series of the scheduler; a manual run or a backfill has the number of its request, and a
# reaction that of its event.
CLOCK = 0
MOST_BACKFILLED = 10_000  # moments at once: they are written in one transaction


class Outcome(StrEnum):
    QUEUED = "queued"  # a job was made
    MERGED = "merged"  # the job of another moment covers this one too
    SKIPPED = "skipped"  # no job, and the cause says why


class Cause(StrEnum):
    """The reason why a moment did not get its own job."""

    OVERLAP = "overlap"
    MISSED = "missed"
    LATE = "late"
    PAUSED = "paused"
    EXCLUDED = "excluded"
    EXHAUSTED = "exhausted"
    WITHDRAWN = "withdrawn"  # another event cancelled the reaction
    REFUSED = "refused"  # the event lacks what its task or its key needs
    ASKED = "asked"  # skipped in advance by a person; with a job: a backfill


class DueMoment(NamedTuple):
    """The part of a fire that its job can see."""

    id: int
    schedule: str | None  # None: the schedule has been removed
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFire:
    id: int
    schedule_id: int
    due_at: datetime
    covers_from: datetime
    count: int | None  # None: too many to be counted
    outcome: Outcome
    cause: Cause | None
    reason: str
    decided_at: datetime
    job_id: int | None = None
    series: int = CLOCK

    @property
    def is_backfill(self) -> bool:
        """Return whether a person asked for this past moment; a manual run is not a backfill."""
        return self.series != CLOCK and self.cause is Cause.ASKED


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A moment that a backfill leaves alone, because it had a job before."""

    due_at: datetime
    job_id: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """The result of a backfill, or of its dry run."""

    schedule: str
    start: datetime
    end: datetime  # exclusive
    queued: tuple[datetime, ...] = ()  # a job was made for each
    jobs: tuple[int, ...] = ()  # in the order of ``queued``; none in a dry run
    left_alone: tuple[LeftAlone, ...] = ()
    forgotten: tuple[datetime, ...] = ()  # queued moments older than the ledger: they may have run
    notes: tuple[str, ...] = ()  # warnings for the person who asked
    dry_run: bool = False  # nothing was done
