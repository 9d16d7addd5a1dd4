"""The pruner: deletes history older than its retention and prepares the partitions of coming days.

Deleted rows do not come back, and deleting is never urgent. So the pruner trusts the clock only
after it was steady for ten minutes.
"""

from datetime import timedelta
from typing import Unpack

from duly.engine.timekeeper import (
    NO_REST,
    ORDINARY,
    Caution,
    ClockedService,
    ServiceOptions,
)
from duly.events import Pruned
from duly.store.maintenance import Retention
from duly.store.store import Store

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
        retention: Retention | None = None,
        caution: Caution = DELETING,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(store, **options)
        self._retention = retention or Retention()
        self._caution = caution

    async def tick(self) -> timedelta:
        await self._store.maintenance.make_days(trust=self._timekeeper.ask(ORDINARY))
        gone = await self._store.maintenance.prune(
            self._retention, limit=self._batch, trust=self._timekeeper.ask(self._caution)
        )
        if gone:
            self._emit(Pruned(rows=gone))
        return NO_REST if gone >= self._batch else EVERY
