"""How many jobs an executor has room for, where it cannot run any number of them at once.

A worker with ten slots and two cores runs two jobs in processes. If it claimed ten, eight would sit
in its line while workers elsewhere are idle. So no more is claimed than there are seats, and as
many as lately ended in 100 ms.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TypeAlias

from duly.engine.executors import Executor
from duly.model.claimed import Claimed

ExecutorOf: TypeAlias = Callable[[Claimed], str | None]  # the name of an executor


class ExecutorCapacity:
    """The seats of all executors, by name; most have any number, and need none here."""

    def __init__(
        self, executors: Mapping[str, Executor], *, time: Callable[[], float], place_of: ExecutorOf
    ) -> None:
        self._place_of = place_of
        self._seats = {
            name: ExecutorSlots(executor.concurrency, time)
            for name, executor in executors.items()
            if executor.concurrency is not None
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

    def _seats_of(self, job: Claimed) -> "ExecutorSlots | None":
        if not self._seats:
            return None
        place = self._place_of(job)
        return None if place is None else self._seats.get(place)


class ExecutorSlots:
    def __init__(self, number: int, time: Callable[[], float]) -> None:
        self.number = number
        self.taken = 0
        self.left = 0  # ever
        self._pace = CompletionRate(time)

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


LONGEST_WAIT_SECONDS = 1.0


class PrefetchBuffer:
    def __init__(self, seating: ExecutorCapacity, time: Callable[[], float]) -> None:
        self._seating = seating
        self._time = time
        self._jobs: deque[Claimed] = deque()
        self._came: deque[float] = deque()  # the moment of each

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Claimed]:
        return iter(self._jobs)

    def has(self, number: int) -> bool:
        return any(job.id == number for job in self._jobs)

    def add(self, jobs: Iterable[Claimed]) -> None:
        self._jobs.extend(jobs)
        now = self._time()
        self._came.extend(now for _ in range(len(self._jobs) - len(self._came)))

    def next(self) -> Claimed | None:
        """The first for which there is a seat."""
        for place, job in enumerate(self._jobs):
            if not self._seating.is_full_for(job):
                return self._remove(place)
        return None

    def take(self, numbers: Container[int]) -> list[Claimed]:
        """Those of these numbers, out of the line."""
        places = [place for place, job in enumerate(self._jobs) if job.id in numbers]
        return [self._remove(place) for place in reversed(places)][::-1]

    def take_all(self) -> list[Claimed]:
        jobs = list(self._jobs)
        self._jobs.clear()
        self._came.clear()
        return jobs

    def take_overdue(self) -> list[Claimed]:
        """Those that have waited for too long."""
        before = self._time() - LONGEST_WAIT_SECONDS
        overdue = []
        while self._came and self._came[0] <= before:
            overdue.append(self._remove(0))
        return overdue

    def unseated(self) -> dict[int, int]:
        """Those for which no seat is free, and how many seats had become free until now."""
        if not self._seating.is_full_somewhere:
            return {}
        return {
            job.id: self._seating.left(job) for job in self._jobs if self._seating.is_full_for(job)
        }

    def take_forsaken(self, before: Mapping[int, int]) -> list[Claimed]:
        """Those of the unseated from before that still are, and no seat has become free since."""
        if not before:
            return []
        return self.take(
            {number for number, left in self.unseated().items() if before.get(number) == left}
        )

    def _remove(self, place: int) -> Claimed:
        job = self._jobs[place]
        del self._jobs[place], self._came[place]
        return job


AHEAD_SECONDS = 0.1
_MEMORY = 8  # of how many attempts the length is remembered, about


class CompletionRate:
    """How many jobs a second have ended lately."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._since = time()
        self._before = 0
        self._rate = 0.0
        self._length = 0.0

    def took(self, seconds: float) -> None:
        """An attempt has ended, so long after it began."""
        self._length += (seconds - self._length) / _MEMORY

    def ahead(self, ended: int, slots: int) -> int:
        """How many jobs there will be room for in a moment.

        Long jobs that began together end together, and that looks like a flood of short ones. But
        slots never let more through than their number by the length of a job.
        """
        rate = self.rate(ended)
        if self._length > 0:
            rate = min(rate, slots / self._length)
        return int(rate * AHEAD_SECONDS)

    def rate(self, ended: int) -> float:
        passed = self._time() - self._since
        if passed >= AHEAD_SECONDS:
            # Half of what was: a worker that turns to long jobs forgets the short ones in no time.
            self._rate = (self._rate + (ended - self._before) / passed) / 2
            self._since, self._before = self._time(), ended
        # What has ended in this moment already shows that a flood has begun, before it is over.
        return max(self._rate, (ended - self._before) / AHEAD_SECONDS)


def free_resources(resources: Mapping[str, int], jobs: Iterable[Claimed]) -> dict[str, int]:
    """Return the resources of a worker that its jobs do not use."""
    free = dict(resources)
    for job in jobs:
        for name, amount in job.needed.items() if job.needs else ():
            free[name] = free.get(name, 0) - amount
    return free
