"""What applying a file would do: the file, what was last applied, and what is there, compared.

The last applied file tells who changed a thing. Where the store still says what was applied, the
file has been edited, and its new value is taken. Where the store says something else, a person
edited it, and that stays until it is taken back: it is **drift**, and it is shown.

    in the file   last applied   there     what happens
    yes           -              no        added
    yes           yes            yes       changed, field by field; or it drifted; or nothing
    yes           yes            no        a person removed it: drift, added only if taken back
    yes           no             yes       changed; one that somebody else owns only if taken back
    no            yes            yes       removed if asked to prune, and kept with a line if not
    no            -              -         nothing: what the file never had is not its business
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from duly.declare.changes import Action, Change
from duly.declare.comparing import LIMITS, QUEUES, SCHEDULES, Comparison
from duly.declare.recording import Decided
from duly.declare.sheet import Sheet


@dataclass(frozen=True, slots=True)
class SheetPlan:
    """The changes in the order of the file, and what to remember as applied once they are made."""

    changes: tuple[Change, ...]
    record: Sheet

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do; there may be drift all the same."""
        return not any(change.is_work for change in self.changes)

    @property
    def has_drift(self) -> bool:
        return any(change.has_drift for change in self.changes)

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each action, and how many ``drifted`` in whole or in part."""
        counted = Counter(change.action for change in self.changes)
        drifted = sum(change.has_drift for change in self.changes)
        return {action: counted[action] for action in get_args(Action)} | {"drifted": drifted}

    def lines(self) -> list[str]:
        """The plan for people to read; what is unchanged has no line."""
        return [line for change in self.changes for line in change.lines()]

    def summary(self) -> str:
        """``2 to add, 1 to change, 1 drifted, 4 unchanged``."""
        counts = self.counts
        words = {word: f"{counts[word]} to {word}" for word in ("add", "change", "remove")}
        words |= {word: f"{counts[word]} {word}" for word in ("drifted", "left", "unchanged")}
        return ", ".join(said for word, said in words.items() if counts[word]) or "nothing to do"


def plan(
    file: Sheet,
    applied: Sheet | None,
    live: Sheet,
    *,
    owners: Mapping[str, str] | None = None,
    decided: Mapping[str, Decided] | None = None,
    prune: bool = False,
    take_back: bool = False,
) -> SheetPlan:
    """Compare the three.

    ``owners`` are those of the live schedules, ``file`` where nothing is said. One that a person
    owns is the file's all the same if it was applied before. ``decided`` is what tasks and defaults
    did, of each schedule, where the file that was applied said nothing.
    """
    file, last, live = file.resolved(), (applied or Sheet()).resolved(), live.resolved()
    schedules = Comparison(
        SCHEDULES,
        file.schedules,
        last.schedules,
        live.schedules,
        owners=owners or {},
        decided=decided or {},
    )
    queues = Comparison(QUEUES, file.queues, last.queues, live.queues)
    limits = Comparison(LIMITS, file.limits, last.limits, live.limits)
    changes = [
        change
        for comparison in (schedules, queues, limits)
        for change in comparison.changes(prune=prune, take_back=take_back)
    ]
    record = Sheet(
        schedules=schedules.record(changes),
        queues=queues.record(changes),
        limits=limits.record(changes),
    )
    return SheetPlan(tuple(changes), record)
