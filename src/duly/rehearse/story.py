"""The input of a simulation and its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from duly.durations import SECOND
from duly.model.fire import StoredFire
from duly.model.schedule import Pause, Plan

# The outcome of a due moment; ``waits``: not started before the end of the simulation.
Word = Literal["runs", "stopped", "failed", "waits", "expired", "merged", "skipped"]
RAN: Final = ("runs", "stopped", "failed")


@dataclass(frozen=True, slots=True)
class Outage:
    """A time without scheduler and workers, from ``start`` until ``end``."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Unended:
    """A run that began before the start and is still running."""

    due_at: datetime
    begun_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A plan and the conditions of its simulation: moments from ``start`` on and before ``end``."""

    plan: Plan
    start: datetime
    end: datetime
    outages: Sequence[Outage] = ()
    runtime: timedelta = timedelta()  # of each run that is not stopped
    pause: Pause | None = None  # … that began before, and ends by itself
    asked: Sequence[StoredFire] = ()  # moments that were skipped in advance
    unended: Unended | None = None  # of a rule with moments; a delay begins with its end


@dataclass(frozen=True, slots=True)
class StoryAttempt:
    """One execution; ``outcome`` is the store's word for it, as ``succeeded`` or ``lost``."""

    start: datetime
    end: datetime
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryMoment:
    """A simulated row of the ledger, with the attempts of its run."""

    due_at: datetime
    covers_from: datetime  # a row may stand for many moments, from here to due_at
    count: int | None  # how many; None: too many to count
    outcome: Word
    cause: str | None
    why: str
    ready_at: datetime  # when it could begin at the earliest: later than due by jitter
    attempts: Sequence[StoryAttempt] = ()

    @property
    def starts_at(self) -> datetime | None:
        return self.attempts[0].start if self.attempts else None

    @property
    def ends_at(self) -> datetime | None:
        return self.attempts[-1].end if self.attempts else None

    @property
    def lateness(self) -> timedelta | None:
        return self.attempts[0].start - self.due_at if self.attempts else None

    @property
    def is_late(self) -> bool:
        """Return whether the run started late. A delay by jitter does not count."""
        return bool(self.attempts) and self.attempts[0].start - self.ready_at >= SECOND


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of the clocks in the schedule's zone, forward or back."""

    at: datetime
    by: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    what: WhatIf
    moments: Sequence[StoryMoment]  # the oldest first
    clock_changes: Sequence[ClockChange]

    @property
    def sentence(self) -> str:
        """``14 due: 12 would run (2 of them late), 1 skipped, 1 merged``."""
        if not self.moments:
            return "nothing is due"
        ran = [moment for moment in self.moments if moment.outcome in RAN]
        said = [f"{len(ran):,} would run{self._beside(ran)}"] if ran else []
        said += [
            f"{counted} {words}"
            for word, words in _OTHERS.items()
            if (counted := _counted([m for m in self.moments if m.outcome == word])) != "0"
        ]
        return f"{_counted(self.moments)} due: {', '.join(said)}"

    @staticmethod
    def _beside(ran: Sequence[StoryMoment]) -> str:
        counts = {
            "late": sum(moment.is_late for moment in ran),
            "stopped before the end": sum(moment.outcome == "stopped" for moment in ran),
            "failed": sum(moment.outcome == "failed" for moment in ran),
        }
        said = [f"{count:,} {words}" for words, count in counts.items() if count]
        if not said:
            return ""
        first, *rest = said
        count, _, words = first.partition(" ")
        return f" ({', '.join([f'{count} of them {words}', *rest])})"


_OTHERS: Final = {
    "waits": "not yet begun",
    "expired": "too late to start",
    "skipped": "skipped",
    "merged": "merged",
}


def _counted(moments: Sequence[StoryMoment]) -> str:
    if any(moment.count is None for moment in moments):
        return "countless"
    return f"{sum(moment.count or 0 for moment in moments):,}"
