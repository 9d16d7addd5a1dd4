"""The values of a scheduling decision: the facts that go in and the entries that come out."""

from dataclasses import dataclass
from datetime import datetime

from duly.model.fire import Cause, Outcome
from duly.model.policies import Late
from duly.model.schedule import StoredSchedule
from duly.model.states import State


@dataclass(frozen=True, slots=True)
class LiveJob:
    """An unfinished job of the schedule. A job made in the same decision has no id yet."""

    id: int | None
    state: State
    due_at: datetime
    fire_id: int | None = None
    backfilled: bool = False  # a person asked for this moment: no newer moment replaces the job

    @property
    def started(self) -> bool:
        return self.state is State.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about a schedule that a decision needs."""

    schedule: StoredSchedule
    live: tuple[LiveJob, ...] = ()  # its jobs that have not ended and matter here, oldest first
    waiting: int = 0  # how many further jobs of the clock wait
    settled: frozenset[datetime] = frozenset()  # moments after the cursor that are in the ledger
    # Decide only up to here, because later ledger rows were not read. None: up to now.
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be made for a fire."""

    state: State
    due_at: datetime
    ready_at: datetime
    deadline: datetime | None
    late: Late
    priority: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """A row to write to the ledger."""

    due_at: datetime
    covers_from: datetime
    count: int | None  # None: too many to be counted
    outcome: Outcome
    reason: str
    cause: Cause | None = None
    job: NewJob | None = None
    takes_over: LiveJob | None = None  # the waiting job that now runs for this moment
    deadline: datetime | None = None  # the new deadline of the job that is taken over

    @classmethod
    def of_one(
        cls,
        moment: datetime,
        outcome: Outcome,
        reason: str,
        *,
        cause: Cause | None = None,
        job: NewJob | None = None,
    ) -> "LedgerEntry":
        """Return the row of a single moment."""
        return cls(
            due_at=moment,
            covers_from=moment,
            count=1,
            outcome=outcome,
            reason=reason,
            cause=cause,
            job=job,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """A decision about one schedule, to be written in one transaction."""

    schedule: StoredSchedule
    entries: list[LedgerEntry]  # oldest first
    stopping: list[int]  # running jobs that are asked to end
    cursor: datetime
    next_at: datetime | None
    awaits: bool = False  # a fixed delay begins when the job of the last entry ends

    @property
    def jobs(self) -> list[NewJob]:
        return [entry.job for entry in self.entries if entry.job]
