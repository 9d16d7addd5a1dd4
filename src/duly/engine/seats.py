"""How many jobs an executor has room for, where it cannot run any number of them at once.

A worker with ten slots and two cores runs two jobs in processes. If it claimed ten, eight would sit
in its line while workers elsewhere are idle. So no more is claimed than there are seats, and as
many as lately ended in 100 ms.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from duly.engine.executors.protocol import Executor
from duly.engine.pace import Pace
from duly.model.claimed import Claimed

PlaceOf: TypeAlias = Callable[[Claimed], str | None]  # the name of an executor


class Seating:
    """The seats of all executors, by name; most have any number, and need none here."""

    def __init__(
        self, executors: Mapping[str, Executor], *, time: Callable[[], float], place_of: PlaceOf
    ) -> None:
        self._place_of = place_of
        self._seats = {
            name: Seats(executor.seats, time)
            for name, executor in executors.items()
            if executor.seats is not None
        }

    def take(self, place: str) -> None:
        seats = self._seats.get(place)
        if seats is not None:
            seats.taken += 1

    def leave(self, place: str, seconds: float) -> None:
        seats = self._seats.get(place)
        if seats is not None:
            seats.leave(seconds)

    def is_full_for(self, job: Claimed) -> bool:
        if not self.is_full_somewhere:
            return False
        seats = self._seats_of(job)
        return seats is not None and seats.is_full

    @property
    def is_full_somewhere(self) -> bool:
        return any(seats.is_full for seats in self._seats.values())

    def left(self, job: Claimed) -> int:
        """How many seats of its kind have become free, ever."""
        seats = self._seats_of(job)
        return 0 if seats is None else seats.left

    def is_limited(self, job: Claimed) -> bool:
        return self._seats_of(job) is not None

    def room(self, waiting: Iterable[Claimed]) -> dict[str, int]:
        """How many more jobs there is use for, by executor."""
        # Where nobody sits, nobody waits: then the line, which may be long, is not looked at.
        return {
            name: seats.useful - (self._waiting_for(name, waiting) if seats.taken else 0)
            for name, seats in self._seats.items()
        }

    def _waiting_for(self, name: str, waiting: Iterable[Claimed]) -> int:
        return sum(self._place_of(job) == name for job in waiting)

    def _seats_of(self, job: Claimed) -> "Seats | None":
        if not self._seats:
            return None
        place = self._place_of(job)
        return None if place is None else self._seats.get(place)


class Seats:
    def __init__(self, number: int, time: Callable[[], float]) -> None:
        self.number = number
        self.taken = 0
        self.left = 0  # ever
        self._pace = Pace(time)

    @property
    def is_full(self) -> bool:
        return self.taken >= self.number

    @property
    def useful(self) -> int:
        return self.number + self._pace.ahead(self.left, self.number) - self.taken

    def leave(self, seconds: float) -> None:
        """An attempt has ended, so long after it began."""
        self.taken -= 1
        self.left += 1
        self._pace.took(seconds)
