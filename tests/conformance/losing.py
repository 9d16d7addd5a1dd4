"""A database that does what it was told, and loses the answer.

The worst that a network can do to a commit: it happened, and the caller cannot know.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from duly.errors import OutcomeUnknown
from duly.store.database import Ask, Database, Dialect, Migration, Operation, Row, Start, T


async def _nothing() -> None:
    """Happens between the commit and the moment at which the caller learns of its loss."""


class LosingAnswers:
    """Loses the answers to the next writes that ask a certain statement."""

    is_listening = False

    def __init__(self, database: Database) -> None:
        self.dialect: Dialect = database.dialect
        self._inside = database
        self._statement = ""
        self._left = 0
        self._meanwhile: Callable[[], Awaitable[None]] = _nothing
        self.lost = 0
        self.seen: Counter[str] = Counter()  # in how many writes each statement was asked

    def lose(
        self,
        statement: str,
        *,
        times: int = 1,
        meanwhile: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """Lose the answers of the next ``times`` writes in which the statement is asked."""
        self._statement, self._left, self._meanwhile = statement, times, meanwhile

    async def write(self, start: Start[T], /) -> T:
        asked: set[str] = set()
        result = await self._inside.write(lambda: _watched(start(), asked))
        await self._perhaps(asked)
        return result

    async def write_one(self, ask: Ask, /) -> list[Row]:
        result = await self._inside.write_one(ask)
        await self._perhaps({ask.statement})
        return result

    async def read(self, start: Start[T], /) -> T:
        return await self._inside.read(start)

    def nudge(self, topics: Sequence[str], /) -> None:
        self._inside.nudge(topics)

    def listen(self, listener: Callable[[str], None], /) -> None:
        self._inside.listen(listener)

    async def applied(self) -> list[int]:
        return await self._inside.applied()

    async def minimum(self) -> int:
        return await self._inside.minimum()

    async def apply(self, migration: Migration, /) -> bool:
        return await self._inside.apply(migration)

    async def open(self) -> None:
        """Whoever opened the database below closes it, too."""

    async def close(self) -> None:
        """See ``open``."""

    async def _perhaps(self, asked: set[str]) -> None:
        self.seen.update(asked)
        if self._left and self._statement in asked:
            self._left -= 1
            self.lost += 1
            await self._meanwhile()
            raise OutcomeUnknown("the answer to the commit was lost, on purpose")


def _watched(operation: Operation[T], asked: set[str]) -> Operation[T]:
    """The same operation, whose statements are written down."""
    try:
        ask = next(operation)
        while True:
            asked.add(ask.statement)
            ask = operation.send((yield ask))
    except StopIteration as end:
        result: T = end.value
        return result
