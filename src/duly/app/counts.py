"""Moments counted by what people want to know of them: whether they were kept."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from duly.model.fire import Cause, Outcome
from duly.model.states import ENDED, State
from duly.store.protocol import Tally

LATE = timedelta(minutes=1)  # what begins later than this is worth a word

# Moments that nobody wanted kept.
_ON_PURPOSE = (Cause.PAUSED, Cause.EXCLUDED, Cause.ASKED, Cause.MISSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The moments of the clock. Due are those that are kept, under way, or not kept."""

    kept: int = 0
    late: int = 0  # so many of the kept
    under_way: int = 0
    not_kept: int = 0
    on_purpose: int = 0  # skipped because somebody wanted it so, or called off: not counted as due

    @property
    def due(self) -> int:
        return self.kept + self.under_way + self.not_kept

    @classmethod
    def total(cls, parts: "Iterable[Counts]") -> "Counts":
        parts = list(parts)
        return cls(
            kept=sum(part.kept for part in parts),
            late=sum(part.late for part in parts),
            under_way=sum(part.under_way for part in parts),
            not_kept=sum(part.not_kept for part in parts),
            on_purpose=sum(part.on_purpose for part in parts),
        )


def counted(tallies: Iterable[Tally]) -> Counts:
    """Of each tally, whether it was kept; a job that is forgotten by now has not failed."""
    kept = late = under_way = not_kept = on_purpose = 0
    for tally in tallies:
        if tally.outcome is Outcome.SKIPPED:
            if tally.cause in _ON_PURPOSE:
                on_purpose += tally.moments
            else:
                not_kept += tally.moments
        elif tally.state in (State.FAILED, State.EXPIRED):
            not_kept += tally.moments
        elif tally.state is State.CANCELLED:
            on_purpose += tally.moments
        elif tally.state is None or tally.state in ENDED:
            kept += tally.moments
            late += tally.late
        else:
            under_way += tally.moments
    return Counts(
        kept=kept, late=late, under_way=under_way, not_kept=not_kept, on_purpose=on_purpose
    )
