"""What a store finds among jobs, a bounded piece at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from duly.model.job import Job

LONGEST_TAIL = 400  # characters of an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Jobs that match, and where to go on.

    A page ends when it is full, or when it has looked at enough: then it may hold few jobs, or none
    at all, and yet not be the last.
    """

    jobs: Sequence[Job]
    after: str | None = None  # what the next page is asked for with; None: there is none
    searched_to: datetime | None = None  # what ended since then was looked at, if not everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A job that has failed, as far as it takes to see what failed alike."""

    id: int
    task: str
    queue: str
    ended_at: datetime
    reason: str
    error: str  # the end of it, no more than LONGEST_TAIL
