"""What the nouns of a store share: the database, numbers for new rows, and those who listen.

And in whose name they change things, if it is somebody's.
"""

from collections.abc import Callable, Iterable
from copy import copy
from typing import TypeVar

from duly.errors import OutcomeUnknown
from duly.model.access import Actor, AuditEntry, Deed
from duly.store import access
from duly.store.database import Ask, Database, Row, Start
from duly.store.ids import BLOCK, Attempt, Dry, Ids, reserve_many
from duly.store.protocol import READY

T = TypeVar("T")

# How often a write is repeated whose answer was lost, before the caller is told.
PATIENCE = 5
MOST_BLOCKS = 16


class Room:
    def __init__(self, database: Database, ids: Ids | None = None) -> None:
        self.database = database
        self.ids = ids or Ids()
        self._listeners: list[Callable[[str], None]] = []
        self._appetite = 1
        self.actor: Actor | None = None

    def acting(self, actor: Actor) -> "Room":
        """The same room, numbers and listeners and all, in somebody's name."""
        other = copy(self)
        other.actor = actor
        return other

    async def write(self, start: Start[T]) -> T:
        """Run an operation; if it runs out of numbers, get more and run it again."""
        while True:
            try:
                return await self.database.write(start)
            except Dry as dry:
                await self.more(dry.needed)

    async def write_one(self, ask: Ask) -> list[Row]:
        """A statement that is a transaction by itself."""
        return await self.database.write_one(ask)

    async def insist(self, start: Start[T]) -> T:
        """Run an operation that finds out by itself whether it was done before."""
        for _ in range(PATIENCE):
            try:
                return await self.write(start)
            except OutcomeUnknown:
                continue
        return await self.write(start)

    async def audited(self, start: Start[T], tell: Callable[[T], Deed]) -> Start[T]:
        """The same, and its entry in the audit log, if it is done in somebody's name.

        Its number is drawn here: however often the whole is run, there is one entry.
        """
        actor = self.actor
        if actor is None:
            return start
        [number] = await self.numbers(1)
        return lambda: access.audited(start, tell, actor=actor, number=number)

    async def announce(self, deed: Deed) -> None:
        """Enter what is about to be done, in more than one transaction."""
        if self.actor is not None:
            await self.entered(self.actor, deed)

    async def entered(self, actor: Actor, deed: Deed) -> AuditEntry:
        [number] = await self.numbers(1)
        return await self.insist(lambda: access.append(actor, deed, number))

    async def read(self, start: Start[T]) -> T:
        return await self.database.read(start)

    async def numbers(self, count: int) -> list[int]:
        while True:
            try:
                return list(self.ids.draw(count))
            except Dry:
                await self.more(count)

    def attempt(self) -> Attempt:
        """Numbers for one run of an operation: asked for anew each time that it is run."""
        return self.ids.attempt()

    async def more(self, needed: int) -> None:
        """Reserve numbers: more each time, since an operation that runs out is run again."""
        self._appetite = min(self._appetite * 2, MOST_BLOCKS)
        for block in await self.database.write(
            lambda: reserve_many(needed // BLOCK + self._appetite)
        ):
            self.ids.add(block)

    def listen(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)
        self.database.listen(listener)

    def nudge(self, *topics: str) -> None:
        for topic in topics:
            for listener in self._listeners:
                listener(topic)
        self.database.nudge(topics)


def ready_in(queues: Iterable[str]) -> list[str]:
    """Topics for the workers of these queues."""
    return [f"{READY}:{queue}" for queue in sorted(set(queues))]
