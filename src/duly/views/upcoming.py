"""What comes next: the first moment of a schedule that nobody has skipped in advance.

A store keeps the next moment of the rule, at which something is decided. That it is decided already
is in the ledger; whoever tells people what comes next asks here.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from duly.errors import RuleError
from duly.model.schedule import Schedule
from duly.policy.firing import moment_after_end
from duly.rules import Budget, Spaced
from duly.store.protocol import Store


async def upcoming(store: Store, schedules: Sequence[Schedule]) -> list[Schedule]:
    """The schedules, each with the next moment that will be kept."""
    skipped = await store.ledger.skipped_ahead([one.id for one in schedules])
    return [beyond(one, skipped.get(one.id, frozenset())) for one in schedules]


async def upcoming_one(store: Store, schedule: Schedule) -> Schedule:
    [found] = await upcoming(store, [schedule])
    return found


def beyond(schedule: Schedule, skipped: AbstractSet[datetime]) -> Schedule:
    """The schedule with the first of its next moments that is not among the skipped ones."""
    moment = schedule.next_at
    if moment not in skipped or schedule.pause is not None or not schedule.plan.is_readable:
        return schedule
    kept = schedule.plan.kept
    with suppress(RuleError), Budget():  # it costs too much: the schedule's fault says so
        while moment is not None and moment in skipped:
            moment = (
                moment_after_end(schedule.plan, moment)
                if isinstance(kept, Spaced)
                else kept.after(moment)
            )
    return replace(schedule, next_at=moment)
