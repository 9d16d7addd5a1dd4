"""What a fire does when an earlier job of the same schedule has not ended.

Not ended means any state but an end: waiting for its moment, for a worker or for a retry, running,
or lost with its worker and not yet taken back. The answers are a closed union; what they need of
the earlier jobs is enforced by rows: a job that waits here is ``blocked`` until the one before it
ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, assert_never

from duly.model.policies import Overlap
from duly.model.states import State

MOST_QUEUED = 1_000


@dataclass(frozen=True, slots=True)
class LiveJob:
    """An earlier job that has not ended. One made in the same decision has no number yet."""

    id: int | None
    state: State
    due_at: datetime
    fire_id: int | None = None
    backfilled: bool = False  # somebody asked for its moment: no newer one takes its place

    @property
    def started(self) -> bool:
        return self.state is State.RUNNING


@dataclass(frozen=True, slots=True)
class Start:
    """Make a job that may run at once."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Make a job that starts when those before it have ended; ask ``stopping`` to end now."""

    behind: LiveJob
    stopping: tuple[LiveJob, ...] = ()


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Make no job: the one that waits now stands for the newer moment."""

    waiting: LiveJob
    stopping: tuple[LiveJob, ...] = ()


@dataclass(frozen=True, slots=True)
class Skip:
    """Make no job."""

    because_of: LiveJob


@dataclass(frozen=True, slots=True)
class Full:
    """Make no job: too many wait already."""

    waiting: int


Answer: TypeAlias = Start | Wait | TakeOver | Skip | Full


def answer(overlap: Overlap, live: Sequence[LiveJob], waiting: int = 0) -> Answer:
    """Return what to do about a due moment, given the earlier jobs that have not ended.

    ``waiting`` counts jobs of the clock that wait and are not among ``live``.
    """
    if not live:
        return Start()
    match overlap:
        case "allow":
            return Start()
        case "skip":
            return Skip(live[0])
        case "queue_one":
            return _newest_waits(live, ())
        case "replace":
            stopping = tuple(job for job in live if job.started and not job.backfilled)
            return _newest_waits(live, stopping)
        case "queue_all":
            waiting += sum(not job.started and not job.backfilled for job in live)
            return Full(waiting) if waiting >= MOST_QUEUED else Wait(live[-1])
        case _:
            assert_never(overlap)


def _newest_waits(live: Sequence[LiveJob], stopping: tuple[LiveJob, ...]) -> Answer:
    waiting = [job for job in live if not job.started and not job.backfilled]
    return TakeOver(waiting[-1], stopping) if waiting else Wait(live[-1], stopping)
