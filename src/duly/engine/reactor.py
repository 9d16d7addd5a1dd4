"""The reactor: looks at what happened, and starts what is to be started because of it.

It also answers the steps of flows that wait for something that has happened.

Any number of them may run, one looks at a time. It is woken when something is emitted; what others
emit in transactions of their own tells nobody, and is found by looking.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from duly.clock import boottime
from duly.engine.timekeeper import ORDINARY, Timekeeper
from duly.errors import DulyError
from duly.events import Emit, EventsHandled, ignore_event
from duly.store.store import Store
from duly.store.values import EVENTS

BATCH: Final = 200
NO_REST: Final = timedelta(0)
# How often it looks, if nobody says that there is something.
LOOKING: Final = timedelta(seconds=1)


class Reactor:
    name = "reactor"
    topics = frozenset({EVENTS})

    def __init__(
        self,
        store: Store,
        *,
        emit: Emit = ignore_event,
        batch: int = BATCH,
        timekeeper: Timekeeper | None = None,
        steady: Callable[[], float] = boottime,
    ) -> None:
        self._store = store
        self._timekeeper = timekeeper or Timekeeper(store, emit=emit, steady=steady)
        self._emit = emit
        self._batch = batch

    async def tick(self) -> timedelta:
        try:
            trust = self._timekeeper.ask(ORDINARY)
            done = await self._store.events.react(limit=self._batch, trust=trust)
        except DulyError:  # what flows wait for may be there all the same
            await self._answer()
            raise
        if done.events:
            self._emit(EventsHandled(events=done.events, jobs=done.jobs, withdrawn=done.withdrawn))
        answered = await self._answer()
        return NO_REST if done.more or answered == self._batch else LOOKING

    async def _answer(self) -> int:
        return await self._store.upkeep.answer(limit=self._batch)
