"""The reactor: starts the jobs that events trigger, and continues flows that wait for events.

Any number of reactors may run; one works at a time. It is woken when an event is emitted.
"""

from datetime import timedelta
from typing import ClassVar

from duly.engine.timekeeper import A_WHILE, NO_REST, ORDINARY, ClockedService
from duly.errors import DulyError
from duly.events import EventsHandled
from duly.store.values import EVENTS


class Reactor(ClockedService):
    name = "reactor"
    topics: ClassVar[frozenset[str]] = frozenset({EVENTS})
    patient = True  # the dispatcher sees events that wait
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
        return NO_REST if done.more or answered == self._batch else A_WHILE

    async def _answer(self) -> int:
        return await self._store.maintenance.answer(limit=self._batch)
