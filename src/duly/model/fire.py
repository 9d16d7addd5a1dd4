"""A fire: a due moment of a schedule, with what became of it and why. One row of the ledger.

A row may stand for many moments: a year of missed seconds is one row that says so. It then covers
``count`` moments from ``covers_from`` to ``due_at``; every due moment is covered by exactly one
row.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    QUEUED = "queued"  # a job was made
    MERGED = "merged"  # another moment's job stands for this one too
    SKIPPED = "skipped"  # no job, and the cause says why


class Cause(StrEnum):
    """Why a moment did not get a job of its own."""

    OVERLAP = "overlap"
    MISSED = "missed"
    LATE = "late"
    PAUSED = "paused"
    EXCLUDED = "excluded"
    EXHAUSTED = "exhausted"
    WITHDRAWN = "withdrawn"  # what it was to react to was called off by another event
    REFUSED = "refused"  # the event lacks what its task or its key needs
    ASKED = "asked"  # somebody said: not the next one; and of one that has a job: run it after all


# The clock's own series; a manual run or a backfill has the number of its request, and a reaction
# that of its event.
CLOCK = 0


class DueMoment(NamedTuple):
    """A fire, as much of it as its job is told."""

    id: int
    schedule: str | None  # None: it was removed since
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
        """Whether it had passed when somebody asked for it; a manual run is one of its own time."""
        return self.series != CLOCK and self.cause is Cause.ASKED


MOST_BACKFILLED = 10_000  # moments at once: they are written in one transaction


class LeftAlone(NamedTuple):
    """A moment that has had a job of its own before."""

    due_at: datetime
    job_id: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """What became of the moments of a schedule in a stretch of time, or would become of them."""

    schedule: str
    start: datetime
    end: datetime  # the first instant that is not in it
    queued: tuple[datetime, ...] = ()  # a job was made for each
    jobs: tuple[int, ...] = ()  # in their order; none in a dry run
    left_alone: tuple[LeftAlone, ...] = ()
    forgotten: tuple[datetime, ...] = ()  # of those queued: perhaps they have run, long ago
    notes: tuple[str, ...] = ()  # what whoever asked for it should know
    dry_run: bool = False  # nothing was done
