"""What a store knows that a simulation needs: the plan, a pause, how long runs take. Only read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from duly.model.fire import Cause, Fire
from duly.model.job import Job
from duly.model.schedule import Pause, Plan
from duly.rehearse.story import Outage, Unended, WhatIf
from duly.rules import Spaced
from duly.store.protocol import Store

A_DAY: Final = timedelta(days=1)
ENOUGH: Final = 20  # moments to see how a schedule goes
CROWDED: Final = 100  # more than these in a day are too many to look at
MOST_ASKED: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A schedule as it stands."""

    now: datetime  # by the store's clock
    plan: Plan
    pause: Pause | None
    next_at: datetime | None
    asked: Sequence[Fire]  # moments ahead that somebody has asked to leave out
    runs: Sequence[timedelta]  # how long the last ones took that ended well
    unended: Job | None  # the oldest run that has not ended


async def known_of(store: Store, name: str) -> Known:
    schedule = await store.schedules.get(name)
    now = (await store.upkeep.progress()).now
    ahead = await store.ledger.fires(name, since=schedule.cursor, limit=MOST_ASKED)
    job = await store.evidence.run_in_the_way(schedule.id, now)
    return Known(
        now=now,
        plan=schedule.plan,
        pause=schedule.pause,
        next_at=schedule.next_at,
        asked=[fire for fire in ahead if fire.cause is Cause.ASKED],
        runs=await store.evidence.past_runs(schedule.id),
        unended=job if job is not None and job.ended_at is None else None,
    )


def continued(what: WhatIf, known: Known) -> WhatIf:
    """Begin with things as they stand: a run goes on, and a delay is over when it would be."""
    job, start = known.unended, what.start
    begun = None if job is None else min(job.claimed_at or start, start)
    kept = what.plan.kept
    if not isinstance(kept, Spaced):
        run = None if job is None or begun is None else Unended(min(job.due_at, begun), begun)
        return replace(what, unended=run)
    due = known.next_at if begun is None else max(begun + what.runtime, start) + kept.delay
    if due is None or due <= start:
        return what
    policies = replace(what.plan.policies, start=max(due, what.plan.policies.start or due))
    return replace(what, plan=replace(what.plan, policies=policies))


def window_end(
    plan: Plan, start: datetime, *, outages: Sequence[Outage] = (), runtime: timedelta = timedelta()
) -> datetime:
    """Where to stop looking, if nobody says: a day, or less if that is crowded, or until it is due.

    Behind an outage as long again, to see how it comes back.
    """
    begins = [start, *(outage.end for outage in outages)]
    return max(_far_enough(plan, begin, runtime) for begin in begins)


def _far_enough(plan: Plan, start: datetime, runtime: timedelta) -> datetime:
    kept = plan.kept
    if isinstance(kept, Spaced):
        between = kept.delay + runtime
        return start + min(max(A_DAY, 2 * between), ENOUGH * between)
    moments = list(kept.between(start, start + A_DAY, CROWDED + 1))
    if len(moments) > CROWDED:
        return moments[ENOUGH]
    following = kept.after(start)
    return start + A_DAY if moments or following is None else following + A_DAY
