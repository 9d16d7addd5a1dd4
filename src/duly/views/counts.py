"""Whether moments were kept: what people want to know of them, in words and in numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from duly.model.fire import Cause, Outcome
from duly.model.states import ENDED, State
from duly.store.protocol import Tally

Kept: TypeAlias = Literal["kept", "late", "under way", "overdue", "not kept", "none"]

LATE = timedelta(minutes=1)  # what begins later than this is worth a word

# Moments that nobody wanted kept.
_ON_PURPOSE = (Cause.PAUSED, Cause.EXCLUDED, Cause.ASKED, Cause.MISSED, Cause.WITHDRAWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Scheduled runs. Due are those that are kept, under way, not kept or overdue."""

    kept: int = 0
    late: int = 0  # so many of the kept
    under_way: int = 0
    not_kept: int = 0
    overdue: int = 0  # no scheduler has fired them
    merged: int = 0  # another run stands for them: it is counted, and they are not
    on_purpose: int = 0  # skipped because somebody wanted it so, or called off: not counted as due

    @property
    def due(self) -> int:
        return self.kept + self.under_way + self.not_kept + self.overdue

    @property
    def parts(self) -> "Mapping[Kept, int]":
        """Return the runs that were due, counted by outcome, the best outcome first."""
        return {
            "kept": self.kept - self.late,
            "late": self.late,
            "under way": self.under_way,
            "overdue": self.overdue,
            "not kept": self.not_kept,
        }

    @classmethod
    def total(cls, parts: "Iterable[Counts]") -> "Counts":
        parts = list(parts)
        return cls(
            kept=sum(part.kept for part in parts),
            late=sum(part.late for part in parts),
            under_way=sum(part.under_way for part in parts),
            not_kept=sum(part.not_kept for part in parts),
            overdue=sum(part.overdue for part in parts),
            merged=sum(part.merged for part in parts),
            on_purpose=sum(part.on_purpose for part in parts),
        )


def kept_word(
    outcome: Outcome, cause: Cause | None, state: State | None, *, late: bool = False
) -> Kept:
    """In a word; ``none``: nobody wanted it kept. A job that is forgotten by now has not failed."""
    if outcome is Outcome.MERGED:
        return "none"  # the run that stands for it has a word of its own
    if outcome is Outcome.SKIPPED:
        return "none" if cause in _ON_PURPOSE else "not kept"
    if state in (State.FAILED, State.EXPIRED):
        return "not kept"
    if state is State.CANCELLED:
        return "none"
    if state is not None and state not in ENDED:
        return "under way"
    return "late" if late else "kept"


def counted(tallies: Iterable[Tally]) -> Counts:
    found: Counter[Kept] = Counter()
    merged = 0
    for tally in tallies:
        if tally.outcome is Outcome.MERGED:
            merged += tally.moments
            continue
        word = kept_word(tally.outcome, tally.cause, tally.state)
        found[word] += tally.moments
        found["late"] += tally.late if word == "kept" else 0
    return Counts(
        kept=found["kept"],
        late=found["late"],
        under_way=found["under way"],
        not_kept=found["not kept"],
        merged=merged,
        on_purpose=found["none"],
    )
