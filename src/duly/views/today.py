"""Today, for many who look at once: how things stand is asked once for all of them."""

import asyncio
from dataclasses import replace

from duly.clock import boottime
from duly.store.protocol import Store
from duly.views.day_strip import Strip
from duly.views.late import LateRuns
from duly.views.overdue import Overdue, find_overdue
from duly.views.status import Status, status

FRESH_SECONDS = 0.8


class Today:
    """Made once in a process, for one store: it remembers."""

    def __init__(self) -> None:
        self._strip = Strip()
        self._late = LateRuns()
        self._lock = asyncio.Lock()
        self._known: Status | None = None
        self._asked_at = 0.0
        self._overdue: Overdue | None = None
        self._overdue_asked_at = -FRESH_SECONDS

    async def look(self, store: Store) -> Status:
        async with self._lock:
            if self._known is None or boottime() - self._asked_at > FRESH_SECONDS:
                found = await status(store, self._strip)
                late = await self._late.look(store, found.strip) if found.strip else ()
                self._known = replace(found, late=late)
                self._asked_at = boottime()
            return self._known

    async def overdue(self, store: Store) -> Overdue | None:
        """What every page says first. Several pages may ask at once: it is looked up for one."""
        if boottime() - self._overdue_asked_at > FRESH_SECONDS:
            self._overdue_asked_at = boottime()
            self._overdue = await find_overdue(store, await store.surroundings.now())
        return self._overdue
