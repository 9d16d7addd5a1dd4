"""The pruner: deletes history older than its retention and prepares the partitions of coming days.

Deleted rows do not come back, and deleting is never urgent. So the pruner trusts the clock only
after it was steady for ten minutes.
"""

from datetime import timedelta

from duly.engine.timekeeper import NO_REST, ORDINARY, Caution, ClockedService, Timekeeper
from duly.events import Emit, Pruned, ignore_event
from duly.store.store import Store
from duly.store.values import Retention

EVERY = timedelta(minutes=5)
WATCHED = timedelta(minutes=10)
DELETING = Caution(patience=WATCHED, watched=WATCHED)


class Pruner(ClockedService):
    name = "pruner"
    batch = 5_000
    topics: frozenset[str] = frozenset()

    def __init__(
        self,
        store: Store,
        *,
        emit: Emit = ignore_event,
        retention: Retention | None = None,
        batch: int | None = None,
        timekeeper: Timekeeper | None = None,
        caution: Caution = DELETING,
    ) -> None:
        super().__init__(store, emit=emit, batch=batch, timekeeper=timekeeper)
        self._retention = retention or Retention()
        self._caution = caution

    async def tick(self) -> timedelta:
        await self._store.upkeep.make_days(trust=self._timekeeper.ask(ORDINARY))
        gone = await self._store.upkeep.prune(
            self._retention, limit=self._batch, trust=self._timekeeper.ask(self._caution)
        )
        if gone:
            self._emit(Pruned(rows=gone))
        return NO_REST if gone >= self._batch else EVERY
