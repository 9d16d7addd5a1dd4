"""A backfill: moments that have passed, run now because somebody asked for them."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

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
