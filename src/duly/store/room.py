"""What the nouns of a store share: the database, numbers for new rows, and those who listen."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from duly.errors import OutcomeUnknown
from duly.store.database import Ask, Database, Row, Start
from duly.store.ids import BLOCK, Dry, Ids, reserve_many
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

    async def read(self, start: Start[T]) -> T:
        return await self.database.read(start)

    async def numbers(self, count: int) -> list[int]:
        while True:
            try:
                return list(self.ids.draw(count))
            except Dry:
                await self.more(count)

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
