"""The reactor: starts the jobs that events trigger, and continues flows that wait for events.

Any number of reactors may run; one works at a time. It is woken when an event is emitted. Events
that are emitted in a transaction of the caller wake nobody and are found by polling.
"""

from datetime import timedelta
from typing import Final

from duly.engine.timekeeper import NO_REST, ORDINARY, ClockedService
from duly.errors import DulyError
from duly.events import EventsHandled
from duly.store.values import EVENTS

LOOKING: Final = timedelta(seconds=1)  # the poll


class Reactor(ClockedService):
    name = "reactor"
    topics = frozenset({EVENTS})
    batch = 200

    async def tick(self) -> timedelta:
        try:
            trust = self._timekeeper.ask(ORDINARY)
            done = await self._store.events.react(limit=self._batch, trust=trust)
        except DulyError:  # flows may be able to continue nevertheless
            await self._answer()
            raise
        if done.events:
            self._emit(EventsHandled(events=done.events, jobs=done.jobs, withdrawn=done.withdrawn))
        answered = await self._answer()
        return NO_REST if done.more or answered == self._batch else LOOKING

    async def _answer(self) -> int:
        return await self._store.upkeep.answer(limit=self._batch)
