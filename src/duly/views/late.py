"""What was kept, and late: a word about each of the last."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from duly.clock import boottime
from duly.model.fire import Fire
from duly.store.protocol import Store
from duly.views.counts import LATE
from duly.views.day_strip import StripView
from duly.views.why import answer_moment

MOST = 10
PAUSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRun:
    schedule: str
    due_at: datetime
    zone: str
    job_id: int | None
    sentence: str


class LateRuns:
    """Made once in a process, for one store: it asks again when other hours have some."""

    def __init__(self) -> None:
        self._seen: list[tuple[datetime, int]] = []
        self._known: list[LateRun] = []
        self._asked_at = -PAUSE_SECONDS

    async def look(self, store: Store, view: StripView) -> list[LateRun]:
        seen = [(cell.start, cell.counts.late) for cell in view.hours if cell.counts.late]
        if seen != self._seen and boottime() - self._asked_at >= PAUSE_SECONDS:
            self._known = await _late(store, [start for start, _ in seen], view.now)
            self._seen, self._asked_at = seen, boottime()
        return self._known


async def _late(store: Store, hours: Sequence[datetime], until: datetime) -> list[LateRun]:
    """Back through the hours that have some: each may have been decided long after it was due."""
    found: list[LateRun] = []
    for hour in reversed(hours):
        left = MOST - len(found)
        for row in await store.evidence.late_moments(hour, until, late=LATE, limit=left):
            found += await _said(store, row)
        if len(found) >= MOST:
            break
        until = hour
    return found


async def _said(store: Store, row: Fire) -> list[LateRun]:
    """Nothing of a schedule that is gone."""
    schedule = await store.evidence.schedule(row.schedule_id)
    if schedule is None:
        return []
    answer = await answer_moment(store, schedule, row)
    return [
        LateRun(
            schedule=schedule.plan.name,
            due_at=row.due_at,
            zone=schedule.plan.shown_zone,
            job_id=row.job_id,
            sentence=answer.short or answer.sentence,
        )
    ]
