"""Where a worker looks for work next.

A place is a shelf of a queue. Queues take turns. Of each queue, looks go in turn to the moments of
schedules and to what was enqueued, so that neither starves behind a flood of the other. One look in
eight goes to the low shelf, so that low work is not starved either, and one each to what is careful
and to what is suspect. Idle work is looked for only where nothing else is known to wait anywhere.

Nothing here is certain: a place that is thought to hold work may be empty. A nudge is a hint, a
peek at the store is news, and a look that finds less than it asked for empties the place.
"""

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from duly.store.protocol import CAREFUL, CLOCK, IDLE, LOW, NORMAL, SUSPECT, Ready

# The shelf that is looked at first, by turns. If nothing is known to be there, others are.
_FIRST = (CLOCK, NORMAL, CLOCK, NORMAL, CLOCK, SUSPECT, CAREFUL, LOW)
_OTHERS = (NORMAL, CLOCK, CAREFUL, LOW, SUSPECT)


class Place(NamedTuple):
    queue: str
    shelf: int


class Rota:
    def __init__(self, queues: Sequence[str]) -> None:
        self._line = list(queues)
        self._shelves: dict[str, set[int]] = {queue: set() for queue in queues}
        self._looks = dict.fromkeys(queues, 0)
        self._among: dict[Place, Sequence[str]] = {}

    @property
    def queues(self) -> list[str]:
        return sorted(self._shelves)

    @property
    def knows_nothing(self) -> bool:
        return not any(self._shelves.values())

    def knows_of_more(self, *, shut: Container[str] = ()) -> bool:
        """Whether something is known to be ready where a look is worth it."""
        return any(shelves for queue, shelves in self._shelves.items() if queue not in shut)

    def hint(self, queue: str | None = None, *, shelf: int = NORMAL) -> None:
        """Something became ready, in this queue or in any."""
        for name in [queue] if queue else self._line:
            if name in self._shelves:
                self._shelves[name].add(shelf)

    def seen(self, places: Iterable[Ready | tuple[str, int]]) -> None:
        """What a peek at the store has shown."""
        for shelves in self._shelves.values():
            shelves.clear()
        self._among.clear()
        for queue, shelf, *among in places:
            self._shelves[queue].add(shelf)
            self._among[Place(queue, shelf)] = among[0] if among else ()

    def among(self, place: Place) -> Sequence[str]:
        """The tasks that were seen there, if others' jobs were as well; else nothing."""
        return self._among.get(place, ())

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
        first = _FIRST[self._looks[queue] % len(_FIRST)]
        for shelf in (first, *_OTHERS):
            if shelf in known:
                return shelf
        return None

    def _idle_work(self, queue: str, unwanted: set[int]) -> int | None:
        return IDLE if IDLE in self._shelves[queue] - unwanted else None
