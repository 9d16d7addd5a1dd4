"""Jobs that a worker has claimed and not begun, in the order in which they came.

A job for which no seat is free is passed by those behind it. Nothing stays where it is not well
off, for others may be idle: a job is given up when it waits for a seat and none has become free for
a while, or when it has waited for a second, whatever was expected of those before it.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from duly.engine.seats import Seating
from duly.model.claimed import Claimed

LONGEST_WAIT_SECONDS = 1.0


class Line:
    def __init__(self, seating: Seating, time: Callable[[], float]) -> None:
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
