"""Numbers for new rows, made by the client before it writes.

A process reserves a block of a thousand in a transaction of its own and then counts. So a call that
is repeated after a lost answer carries the same numbers and finds what it has done; and numbers
rise, are short, and are never used twice, because a block is never given back.

An operation draws what it needs. If the block runs dry in the middle of one, it stops with ``Dry``,
nothing is written, and it is run again when there are more. What it had drawn by then is given back
(``attempt``), and it says how many it needs in all: or one that draws several times might never
find enough.
"""

from collections.abc import Iterable, Iterator
from threading import Lock

from duly.store.database import Ask, Operation

BLOCK = 1_000


class Dry(Exception):
    """There are fewer numbers left than an operation needs."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} numbers are needed")
        self.needed = needed


class Ids:
    """The numbers that this process has reserved and not used."""

    def __init__(self) -> None:
        self._blocks: list[range] = []
        self._lock = Lock()  # operations draw in the writer's thread, the loop adds in its own

    def draw(self, count: int) -> Iterator[int]:
        with self._lock:
            if sum(map(len, self._blocks)) < count:
                raise Dry(count)
            drawn: list[int] = []
            while len(drawn) < count:
                block = self._blocks.pop(0)
                taken = min(len(block), count - len(drawn))
                drawn += block[:taken]
                if taken < len(block):
                    self._blocks.insert(0, block[taken:])
        return iter(drawn)

    def add(self, block: int) -> None:
        with self._lock:
            self._blocks.append(range(block * BLOCK, (block + 1) * BLOCK))

    def attempt(self) -> "Attempt":
        """For one run of an operation, which may have to be run again."""
        return Attempt(self)

    def give_back(self, numbers: Iterable[int]) -> None:
        """Numbers that nobody has used, and nobody will."""
        runs: list[range] = []
        for number in numbers:
            if runs and runs[-1].stop == number:
                runs[-1] = range(runs[-1].start, number + 1)
            else:
                runs.append(range(number, number + 1))
        with self._lock:
            self._blocks += runs


class Attempt(Ids):
    """Draws from a pool, for one run of an operation. If that has too few, all are given back."""

    def __init__(self, pool: Ids) -> None:
        super().__init__()
        self._pool = pool
        self._drawn: list[int] = []

    def draw(self, count: int) -> Iterator[int]:
        try:
            found = list(self._pool.draw(count))
        except Dry as dry:
            drawn, self._drawn = self._drawn, []
            self._pool.give_back(drawn)
            raise Dry(len(drawn) + dry.needed) from None
        self._drawn += found
        return iter(found)


def reserve_many(blocks: int) -> Operation[list[int]]:
    found: list[int] = []
    while len(found) < blocks:
        found.append((yield from reserve()))
    return found


def reserve() -> Operation[int]:
    """The number of a new block."""
    [(block,)] = yield Ask("reserve_ids")
    return int(block)
