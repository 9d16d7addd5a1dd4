"""The pruner: forgets what is older than it has to be kept, and makes room for the days to come."""

from datetime import timedelta

from duly.events import Emit, Pruned, nobody
from duly.store.protocol import Retention, Store

BATCH = 5_000
EVERY = timedelta(minutes=5)
NO_REST = timedelta(0)


class Pruner:
    name = "pruner"
    topics: frozenset[str] = frozenset()

    def __init__(
        self,
        store: Store,
        *,
        emit: Emit = nobody,
        retention: Retention | None = None,
        batch: int = BATCH,
    ) -> None:
        self._store = store
        self._emit = emit
        self._retention = retention or Retention()
        self._batch = batch

    async def tick(self) -> timedelta:
        gone = await self._store.upkeep.prune(self._retention, limit=self._batch)
        if gone:
            self._emit(Pruned(rows=gone))
        return NO_REST if gone >= self._batch else EVERY
