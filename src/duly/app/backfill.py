"""Backfilling, as people ask for it: moments that have passed are run now, one job for each."""

from dataclasses import dataclass
from datetime import datetime

from duly.model.backfill import MOST_BACKFILLED, Backfill, LeftAlone
from duly.policy.backfill import check_stretch
from duly.store.protocol import Store

__all__ = ["MOST_BACKFILLED", "Backfill", "LeftAlone", "Wanted", "backfill"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for; checked before anybody waits for a store."""

    name: str
    start: datetime
    end: datetime
    dry_run: bool
    again: bool

    def __post_init__(self) -> None:
        check_stretch(self.start, self.end)


async def backfill(store: Store, wanted: Wanted, *, who: str) -> Backfill:
    return await store.schedules.backfill(
        wanted.name,
        since=wanted.start,
        until=wanted.end,
        who=who,
        again=wanted.again,
        dry_run=wanted.dry_run,
    )
