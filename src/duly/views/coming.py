"""How many runs are due between two moments, over all schedules.

Rules are walked along, and there may be thousands of schedules of which each has thousands of
moments: each gets its share of a fixed number of steps, and goes on at the pace that it had.
"""

from collections import defaultdict
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from duly.errors import RuleError
from duly.instants import floored
from duly.model.schedule import Schedule
from duly.rules import Budget, Rule
from duly.store.protocol import Store

HOURS_AHEAD = 12
HOUR = timedelta(hours=1)
MOST_SCHEDULES = 2_000
MOST_STEPS = 4_000


@dataclass(frozen=True, slots=True)
class Ahead:
    """Moments by the hour of UTC in which they are due."""

    hours: Mapping[datetime, float]
    estimated: bool

    def moments(self, hour: datetime) -> int:
        return round(self.hours.get(hour, 0))


async def ahead(store: Store, now: datetime) -> Ahead:
    """From this moment to the end of the last hour. What is overdue is not coming any more."""
    end = floored(now, HOUR) + (HOURS_AHEAD + 1) * HOUR
    schedules = await store.evidence.due_before(end, limit=MOST_SCHEDULES)
    return walked(schedules, now, end)


def walked(schedules: Sequence[Schedule], start: datetime, end: datetime) -> Ahead:
    """Count the runs that are not fired yet and are due after ``start`` and before ``end``.

    Schedules with few runs leave their share of the steps to those that follow.
    """
    hours: defaultdict[datetime, float] = defaultdict(float)
    estimated, steps = len(schedules) == MOST_SCHEDULES, MOST_STEPS
    for place, schedule in enumerate(schedules):
        share = max(2, steps // (len(schedules) - place))
        seen, more = _steps(schedule, start, end, share=share)
        steps -= len(seen)
        for moment in seen:
            hours[floored(moment, HOUR)] += 1
        if more is not None:
            estimated = True
            _extend(hours, more, end, pace=(more - seen[0]) / len(seen))
    return Ahead(hours, estimated)


def _steps(
    schedule: Schedule, start: datetime, end: datetime, *, share: int
) -> tuple[list[datetime], datetime | None]:
    """The first moments from the start to the end, and the next one if they were not all."""
    moment, seen = schedule.next_at, list[datetime]()
    # A rule that costs too much has no known moments beyond these; the schedule's fault says why.
    with suppress(RuleError), Budget():
        if moment is not None and moment <= start:
            moment = _after(schedule, start)
        while moment is not None and moment < end:
            if len(seen) == share:
                return seen, moment
            seen.append(moment)
            moment = _after(schedule, moment)
    return seen, None


def _after(schedule: Schedule, moment: datetime) -> datetime | None:
    """What follows upon the end of a run is not known before it."""
    kept = schedule.plan.kept if schedule.plan.is_readable else None
    return kept.after(moment) if isinstance(kept, Rule) else None


def _extend(
    hours: MutableMapping[datetime, float], start: datetime, end: datetime, *, pace: timedelta
) -> None:
    """Add what comes until the end if it goes on like that."""
    while start < end:
        until = min(floored(start, HOUR) + HOUR, end)
        hours[floored(start, HOUR)] += (until - start) / pace
        start = until
