"""Overdue runs: scheduled runs that are due and that no scheduler has fired.

The ledger has no row for them, so every answer about what was due or what is next asks here first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duly.errors import RuleError
from duly.instants import BEGINNING
from duly.model.schedule import PROMPT, Schedule
from duly.policy.why import Clock, Command
from duly.policy.why.answer import start_scheduler
from duly.policy.why.showing import plural
from duly.rules import Rule
from duly.store.protocol import Store
from duly.views.coming import MOST_SCHEDULES, walked
from duly.views.upcoming import upcoming


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    now: datetime
    since: datetime  # when the oldest of them was due
    schedules: int
    runs: int
    hours: Mapping[datetime, int]  # about how many, by the hour of UTC in which they were due
    last_fired: datetime | None  # when a scheduler last decided anything
    scheduler_is_running: bool  # it fires other schedules, and not these

    def sentence(self, zone: str) -> str:
        clock = Clock(zone, self.now)
        if self.scheduler_is_running:
            since = f"{clock.near(self.since)} ({clock.ago(self.since)} ago)"
            return f"A scheduler is running but behind: {self.counted} overdue since {since}."
        last = self.last_fired
        fired = "ever fired" if last is None else f"fired since {clock.near(last)}"
        ago = "" if last is None else f" ({clock.ago(last)} ago)"
        return f"No scheduler is running: nothing was {fired}{ago}. {self.counted} overdue."

    @property
    def counted(self) -> str:
        """``37 runs of 4 schedules are``."""
        runs, schedules = plural(self.runs, "run"), plural(self.schedules, "schedule")
        return f"{runs} of {schedules} {'is' if self.runs == 1 else 'are'}"

    @property
    def command(self) -> Command:
        return start_scheduler()


async def find_overdue(store: Store, now: datetime) -> Overdue | None:
    """Return what is overdue, or None. Where nothing is, this is one look into an index."""
    late = await store.evidence.due_before(now - PROMPT, limit=MOST_SCHEDULES)
    if not late:
        return None
    waiting = [
        (one, due)
        for one in await upcoming(store, late)  # what somebody skipped in advance is decided
        if (due := one.overdue_at(now)) is not None
    ]
    if not waiting:
        return None
    unfired = [replace(one, next_at=due) for one, due in waiting]
    found = walked(unfired, BEGINNING, now + timedelta.resolution)
    last = await store.evidence.last_decision(now)
    newest = max(due for _, due in waiting)
    return Overdue(
        now=now,
        since=min(due for _, due in waiting),
        schedules=len(waiting),
        runs=sum(runs_due(one, due, now) for one, due in waiting),
        hours={hour: found.moments(hour) for hour in found.hours},
        last_fired=last,
        # Whoever decided something else that long after the newest of them is not down.
        scheduler_is_running=last is not None and last > newest + PROMPT,
    )


def runs_due(schedule: Schedule, first: datetime, now: datetime) -> int:
    """Count the runs of a schedule from the first that is overdue to now."""
    kept = schedule.plan.kept if schedule.plan.is_readable else None
    if not isinstance(kept, Rule):
        return 1
    try:
        return kept.count(first - timedelta.resolution, now)
    except RuleError:  # too costly to be counted
        return 1
