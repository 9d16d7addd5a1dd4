"""A past for a store that is new: schedules live through a while that has passed already."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2s

from duly.connection import migrate_tables
from duly.model.claimed import Claimed
from duly.model.schedule import Plan
from duly.rehearse.story import Outage, WhatIf
from duly.rehearse.world import Clock, World
from duly.store.connect import connect


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """A schedule, and how long its runs took, about."""

    plan: Plan
    runtime: timedelta


class _Uneven(World):
    """No run takes exactly as long as another; each takes as long as it did the last time."""

    def runtime(self, job: Claimed) -> timedelta:
        share = blake2s(str(job.due_at).encode(), digest_size=1).digest()[0] / 255
        return self.what.runtime * (0.6 + share**3)


async def live_through(
    url: str,
    lived: Sequence[Lived],
    *,
    start: datetime,
    end: datetime,
    outage: tuple[datetime, datetime],
) -> None:
    """One after the other, each from the start to the end."""
    clock = Clock(start)
    store = connect(url, clock=clock)
    await store.open()
    try:
        await migrate_tables(store)
        for one in lived:
            clock.moment = start
            world = _Uneven(
                store,
                clock,
                WhatIf(
                    plan=one.plan,
                    start=start,
                    end=end,
                    runtime=one.runtime,
                    outages=[Outage(*outage)],
                ),
            )
            await world.begin()
            await world.pass_to(end)
            await world.leave()
    finally:
        await store.close()
