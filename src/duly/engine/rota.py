"""Where a worker looks for work next.

A place is a shelf of a queue. Queues take turns. Of each, normal work comes first, except that
every eighth look goes to the low shelf, so that low work is never starved by a flood of high; idle
work is looked for only where nothing else is known to wait anywhere. What is careful or suspect
takes its turn as well.

Nothing here is certain: a place that is thought to hold work may be empty. A nudge is a hint, a
peek at the store is news, and a look that finds less than it asked for empties the place.
"""

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from duly.store.protocol import CAREFUL, IDLE, LOW, NORMAL, SUSPECT

# One look in so many goes to the low shelf, if something is there.
RATIO = 8
_FIRST = {RATIO - 1: LOW, RATIO - 2: CAREFUL, RATIO - 3: SUSPECT}


class Place(NamedTuple):
    queue: str
    shelf: int


class Rota:
    def __init__(self, queues: Sequence[str]) -> None:
        self._line = list(queues)
        self._shelves: dict[str, set[int]] = {queue: set() for queue in queues}
        self._looks = dict.fromkeys(queues, 0)

    @property
    def queues(self) -> list[str]:
        return sorted(self._shelves)

    @property
    def knows_nothing(self) -> bool:
        return not any(self._shelves.values())

    def knows_of_more(self, *, shut: Container[str] = ()) -> bool:
        """Whether something is known to be ready where a look is worth it."""
        return any(shelves for queue, shelves in self._shelves.items() if queue not in shut)

    def hint(self, queue: str | None = None) -> None:
        """Something became ready, in this queue or in any."""
        for name in [queue] if queue else self._line:
            if name in self._shelves:
                self._shelves[name].add(NORMAL)

    def seen(self, places: Iterable[tuple[str, int]]) -> None:
        """What a peek at the store has shown."""
        for shelves in self._shelves.values():
            shelves.clear()
        for queue, shelf in places:
            self._shelves[queue].add(shelf)

    def put_back(self, place: Place) -> None:
        """There may be something after all."""
        self._shelves[place.queue].add(place.shelf)

    def emptied(self, place: Place) -> None:
        self._shelves[place.queue].discard(place.shelf)

    def next(
        self, *, suspects: bool = True, careful: bool = True, shut: Container[str] = ()
    ) -> Place | None:
        """The next place to look, and that queue goes to the end of the line."""
        unwanted = ({SUSPECT} if not suspects else set()) | ({CAREFUL} if not careful else set())
        for shelf_of in (self._work, self._idle_work):
            for queue in [queue for queue in self._line if queue not in shut]:
                shelf = shelf_of(queue, unwanted)
                if shelf is not None:
                    self._line.remove(queue)
                    self._line.append(queue)
                    self._looks[queue] += 1
                    return Place(queue, shelf)
        return None

    def _work(self, queue: str, unwanted: set[int]) -> int | None:
        known = self._shelves[queue] - unwanted
        turn = self._looks[queue] % RATIO
        # The rarer shelves have looks of their own, so that a flood of normal work hides none.
        first = _FIRST.get(turn, NORMAL)
        for shelf in (first, NORMAL, CAREFUL, LOW, SUSPECT):
            if shelf in known:
                return shelf
        return None

    def _idle_work(self, queue: str, unwanted: set[int]) -> int | None:
        return IDLE if IDLE in self._shelves[queue] - unwanted else None
