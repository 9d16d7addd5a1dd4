"""The pruner: forgets what is older than it has to be kept, and makes room for the days to come.

What is deleted does not come back, and nobody waits for it. So the pruner believes the clock only
after it has watched it go steadily for ten minutes.
"""

from datetime import timedelta

from duly.engine.timekeeper import ORDINARY, Caution, Timekeeper
from duly.events import Emit, Pruned, ignore_event
from duly.store.store import Store
from duly.store.values import Retention

BATCH = 5_000
EVERY = timedelta(minutes=5)
NO_REST = timedelta(0)
WATCHED = timedelta(minutes=10)
DELETING = Caution(patience=WATCHED, watched=WATCHED)


class Pruner:
    name = "pruner"
    topics: frozenset[str] = frozenset()

    def __init__(
        self,
        store: Store,
        *,
        emit: Emit = ignore_event,
        retention: Retention | None = None,
        batch: int = BATCH,
        timekeeper: Timekeeper | None = None,
        caution: Caution = DELETING,
    ) -> None:
        self._store = store
        self._emit = emit
        self._retention = retention or Retention()
        self._batch = batch
        self._timekeeper = timekeeper or Timekeeper(store, emit=emit)
        self._caution = caution

    async def tick(self) -> timedelta:
        await self._store.upkeep.make_days(trust=self._timekeeper.ask(ORDINARY))
        gone = await self._store.upkeep.prune(
            self._retention, limit=self._batch, trust=self._timekeeper.ask(self._caution)
        )
        if gone:
            self._emit(Pruned(rows=gone))
        return NO_REST if gone >= self._batch else EVERY
