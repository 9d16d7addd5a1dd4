"""Numbers for new rows, made by the client before it writes.

A process reserves blocks of a thousand in a transaction of its own and then counts. So a call that
is repeated after a lost answer carries the same numbers and finds what it has done; and numbers
rise and are short.

A database can go back: it is restored from a backup, or fails over to a standby that had not heard
everything. It then hands out blocks that running processes still count in. So a reservation is a
row, and a transaction that writes under reserved numbers checks that this row is there
(``Ids.confirm``). If it is not, nothing that was written under these numbers is there
either, since it was written later: the numbers are dropped (``Forgotten``) and others are drawn.

An operation draws what it needs. If the blocks run dry in the middle of one, it stops with ``Dry``,
nothing is written, and it is run again when there are more. What it had drawn by then is given back
(``Attempt``), and it says how many it needs in all: or one that draws several times might never
find enough.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Final, TypeVar

from duly.clock import boottime
from duly.errors import StoreUnavailable
from duly.store.database import Ask, Operation, Row, Start, Value

T = TypeVar("T")

BLOCK = 1_000
# The store deletes reservations after a day. A process stops using one well before that.
LONGEST_USE: Final = 6 * 3_600.0  # seconds


# For statements whose numbers the transaction has confirmed already.
CONFIRMED: Final[Mapping[str, Value]] = {"holder": None, "block": None}


class Dry(Exception):
    """There are fewer numbers left than an operation needs."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} numbers are needed")
        self.needed = needed


class Forgotten(Exception):
    """The database does not know that it gave out these numbers."""

    def __init__(self, ids: "Ids") -> None:
        super().__init__("the database does not know that it gave out these numbers")
        self.ids = ids


class NumbersTaken(StoreUnavailable):
    """There are rows already under numbers that were reserved for new ones."""

    def __init__(self) -> None:
        super().__init__(
            "the ids for new rows are in use, and nothing was written: the sequence is behind the "
            "tables, as after a restore without sequences; on PostgreSQL: select "
            "setval('duly.id_block', (select max(id) / 1000 + 1 from duly.job))"
        )


class Ids:
    """The numbers that this process has reserved and not used.

    ``holder`` names the reservation. Without one, numbers are for the transaction that reserved
    them, and need not be confirmed.
    """

    def __init__(self, holder: str | None = None) -> None:
        self.holder = holder
        self._last = 0
        self._blocks: list[range] = []
        self._fresh_until = 0.0
        self._lock = Lock()  # operations draw in the writer's thread, the loop adds in its own

    @classmethod
    def with_holder(cls) -> "Ids":
        """Return a new, empty reservation."""
        return cls(secrets.token_hex(12))

    def take(self, count: int) -> list[int]:
        """Return numbers, to be used only after ``confirm``; raise ``Dry`` if too few are left."""
        with self._lock:
            if self.holder is not None and boottime() > self._fresh_until:
                self._blocks.clear()
            if sum(map(len, self._blocks)) < count:
                raise Dry(count)
            drawn: list[int] = []
            while len(drawn) < count:
                block = self._blocks.pop(0)
                taken = min(len(block), count - len(drawn))
                drawn += block[:taken]
                if taken < len(block):
                    self._blocks.insert(0, block[taken:])
        return drawn

    def draw(self, count: int) -> Operation[Iterator[int]]:
        found = self.take(count)
        yield from self.confirm()
        return iter(found)

    def add(self, block: int) -> None:
        with self._lock:
            self._last = max(self._last, block)
            self._fresh_until = boottime() + LONGEST_USE
            self._blocks.append(range(block * BLOCK, (block + 1) * BLOCK))

    @property
    def reservation(self) -> dict[str, Value]:
        """Return the parameters by which a statement confirms the reservation."""
        return {"holder": self.holder, "block": self._last}

    def confirm(self) -> Operation[None]:
        """Raise ``Forgotten`` unless the database knows the reservation."""
        if self.holder is not None:
            self.confirmed((yield Ask("confirm_ids", self.reservation)))

    def confirmed(self, known: object) -> None:
        """Raise ``Forgotten`` unless a statement found the reservation."""
        if not known:
            raise Forgotten(self)

    def attempt(self) -> "RunIds":
        """Return numbers for one run of an operation, which may have to be run again."""
        return RunIds(self)

    def give_back(self, numbers: Iterable[int]) -> None:
        """Return unused numbers to the pool."""
        runs: list[range] = []
        for number in numbers:
            if runs and runs[-1].stop == number:
                runs[-1] = range(runs[-1].start, number + 1)
            else:
                runs.append(range(number, number + 1))
        with self._lock:
            self._blocks += runs


class RunIds(Ids):
    """Numbers from a pool for one run of an operation; all are given back if there are too few."""

    def __init__(self, pool: Ids) -> None:
        super().__init__()
        self._pool = pool
        self._drawn: list[int] = []
        self._confirmed = False

    def take(self, count: int) -> list[int]:
        try:
            found = self._pool.take(count)
        except Dry as dry:
            drawn, self._drawn = self._drawn, []
            self._pool.give_back(drawn)
            raise Dry(len(drawn) + dry.needed) from None
        self._drawn += found
        return found

    @property
    def reservation(self) -> dict[str, Value]:
        return self._pool.reservation

    def confirmed(self, known: object) -> None:
        self._pool.confirmed(known)
        self._confirmed = True

    def draw(self, count: int) -> Operation[Iterator[int]]:
        found = self.take(count)
        if found and not self._confirmed:
            yield from self._pool.confirm()
            self._confirmed = True
        return iter(found)


class KeptIds(Ids):
    """Numbers that stay the same in every run of an operation, so that it finds its own rows.

    ``pool`` returns the current reservation; there is a new one when the database lost the last.
    """

    def __init__(self, pool: Callable[[], Ids]) -> None:
        super().__init__()
        self._pool = pool
        self._from: Ids | None = None
        self._numbers: list[int] = []
        self.again: bool = False  # rows may have been written under these numbers before

    @classmethod
    def again_from(cls, pool: Ids, numbers: list[int], following: Callable[[], Ids]) -> "KeptIds":
        """Return numbers under which rows may have been written already."""
        kept = cls(following)
        kept._from, kept._numbers = pool, numbers
        return kept

    def draw(self, count: int) -> Operation[Iterator[int]]:
        if self._from is None:
            pool = self._pool()
            self._numbers = pool.take(count)
            self._from, self.again = pool, False
        else:
            self.again = True
        try:
            yield from self._from.confirm()
        except Forgotten:
            self.drop()
            raise
        return iter(self._numbers)

    def drop(self) -> None:
        """Forget these numbers: the next ``draw`` reserves others."""
        self._from = None

    def all_new(self, written: Sequence[Row], wanted: int) -> None:
        """Raise ``NumbersTaken`` if there were rows that no earlier run can have written."""
        if not self.again and len(written) < wanted:
            self.drop()
            raise NumbersTaken


def numbered(kept: KeptIds, count: int, work: Callable[[list[int]], Operation[T]]) -> Start[T]:
    """Return an operation that runs ``work`` with ``count`` numbers, the same in each run."""

    def start() -> Operation[T]:
        numbers = yield from kept.draw(count)
        return (yield from work(list(numbers)))

    return start


def all_new(written: Sequence[Row], wanted: int) -> None:
    """Raise ``NumbersTaken`` if there were rows under numbers that were drawn for new ones."""
    if len(written) < wanted:
        raise NumbersTaken


def reserve_many(blocks: int, holder: str | None) -> Operation[list[int]]:
    """Reserve blocks; with a ``holder`` for use after this transaction, too."""
    found: list[int] = []
    while len(found) < blocks:
        found.append((yield from reserve()))
    if holder is not None:
        yield Ask("note_reservation", {"holder": holder, "block": max(found)})
    return found


def reserve() -> Operation[int]:
    """Reserve a block and return its number."""
    [(block,)] = yield Ask("reserve_ids")
    return int(block)
