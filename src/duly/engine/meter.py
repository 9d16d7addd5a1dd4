"""The meter: adds ended jobs and decided fires to counters that outlive the history.

Jobs pay nothing for it: it reads the rows that they leave behind, a few seconds later. Any number
of meters may run; the first one to write a stretch counts it.
"""

from datetime import timedelta
from typing import Final

from duly.engine.timekeeper import NO_REST, ORDINARY, ClockedService

EVERY: Final = timedelta(seconds=5)


class Meter(ClockedService):
    name = "meter"
    batch = 0  # a stretch is bounded by time
    topics: frozenset[str] = frozenset()

    async def tick(self) -> timedelta:
        more = await self._store.maintenance.count(trust=self._timekeeper.ask(ORDINARY))
        return NO_REST if more else EVERY
