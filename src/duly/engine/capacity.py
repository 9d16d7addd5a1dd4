"""The number of jobs that a worker claims: its free slots, and a little prefetch.

A worker with ten slots and two cores runs two jobs in processes. If it claimed ten, eight would
wait here while other workers are idle. So it claims no more than its executors have free slots,
plus as many jobs as recently ended in 100 ms.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TypeAlias

from duly.engine.executors import Executor
from duly.model.job import Claimed

ExecutorOf: TypeAlias = Callable[[Claimed], str | None]  # the name of an executor


class ExecutorCapacity:
    """The slots of the executors with limited concurrency, by name."""

    def __init__(
        self, executors: Mapping[str, Executor], *, time: Callable[[], float], place_of: ExecutorOf
    ) -> None:
        self._place_of = place_of
        self._slots = {
            name: ExecutorSlots(executor.concurrency, time)
            for name, executor in executors.items()
            if executor.concurrency is not None
        }

    def take(self, place: str) -> None:
        slots = self._slots.get(place)
        if slots is not None:
            slots.taken += 1

    def leave(self, place: str, seconds: float) -> None:
        slots = self._slots.get(place)
        if slots is not None:
            slots.leave(seconds)

    def is_full_for(self, job: Claimed) -> bool:
        if not self.is_full_somewhere:
            return False
        slots = self._slots_of(job)
        return slots is not None and slots.is_full

    @property
    def is_full_somewhere(self) -> bool:
        for slots in self._slots.values():  # noqa: SIM110 - for every job, and twice as fast
            if slots.is_full:
                return True
        return False

    def left(self, job: Claimed) -> int:
        """Return how many slots of its executor have become free, ever."""
        slots = self._slots_of(job)
        return 0 if slots is None else slots.left

    def is_limited(self, job: Claimed) -> bool:
        return self._slots_of(job) is not None

    def room(self, waiting: Iterable[Claimed]) -> dict[str, int]:
        """Return how many more jobs to claim, by executor."""
        # Where no slot is taken no job waits, so the buffer, which may be long, is not searched.
        return {
            name: slots.useful - (self._waiting_for(name, waiting) if slots.taken else 0)
            for name, slots in self._slots.items()
        }

    def _waiting_for(self, name: str, waiting: Iterable[Claimed]) -> int:
        return sum(self._place_of(job) == name for job in waiting)

    def _slots_of(self, job: Claimed) -> "ExecutorSlots | None":
        if not self._slots:
            return None
        place = self._place_of(job)
        return None if place is None else self._slots.get(place)


class ExecutorSlots:
    """The slots of one executor."""

    def __init__(self, number: int, time: Callable[[], float]) -> None:
        self.number = number
        self.taken: int = 0
        self.left: int = 0  # ever
        self._completion_rate = CompletionRate(time)

    @property
    def is_full(self) -> bool:
        return self.taken >= self.number

    @property
    def useful(self) -> int:
        return self.number + self._completion_rate.ahead(self.left, self.number) - self.taken

    def leave(self, seconds: float) -> None:
        """Free a slot after an attempt of this length."""
        self.taken -= 1
        self.left += 1
        self._completion_rate.took(seconds)


LONGEST_WAIT_SECONDS = 1.0


class PrefetchBuffer:
    """Claimed jobs that wait for a slot, with the time each was claimed."""

    def __init__(self, seating: ExecutorCapacity, time: Callable[[], float]) -> None:
        self._executor_capacity = seating
        self._time = time
        self._jobs: deque[Claimed] = deque()
        self._came: deque[float] = deque()  # when each was claimed

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
        """Remove and return the first job whose executor has a free slot."""
        if self._jobs and not self._executor_capacity.is_full_somewhere:
            return self._remove(0)
        for place, job in enumerate(self._jobs):
            if not self._executor_capacity.is_full_for(job):
                return self._remove(place)
        return None

    def take(self, numbers: Container[int]) -> list[Claimed]:
        """Remove and return the jobs with these ids."""
        places = [place for place, job in enumerate(self._jobs) if job.id in numbers]
        return [self._remove(place) for place in reversed(places)][::-1]

    def take_all(self) -> list[Claimed]:
        jobs = list(self._jobs)
        self._jobs.clear()
        self._came.clear()
        return jobs

    def take_overdue(self) -> list[Claimed]:
        """Remove and return the jobs that have waited too long."""
        before = self._time() - LONGEST_WAIT_SECONDS
        overdue = []
        while self._came and self._came[0] <= before:
            overdue.append(self._remove(0))
        return overdue

    def without_slot(self) -> dict[int, int]:
        """Return the jobs without a free slot, with the count of slots freed so far."""
        if not self._executor_capacity.is_full_somewhere:
            return {}
        return {
            job.id: self._executor_capacity.left(job)
            for job in self._jobs
            if self._executor_capacity.is_full_for(job)
        }

    def take_stuck(self, before: Mapping[int, int]) -> list[Claimed]:
        """Remove and return jobs of ``before`` for whose executor no slot was freed since."""
        if not before:
            return []
        return self.take(
            {number for number, left in self.without_slot().items() if before.get(number) == left}
        )

    def _remove(self, place: int) -> Claimed:
        job = self._jobs[place]
        del self._jobs[place], self._came[place]
        return job


AHEAD_SECONDS = 0.1
_MEMORY = 8  # weight of the past in the average length: about so many attempts


class CompletionRate:
    """The rate at which jobs ended recently, per second."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._since = time()
        self._before = 0
        self._rate = 0.0
        self._length = 0.0

    def took(self, seconds: float) -> None:
        """Note the length of an attempt."""
        self._length += (seconds - self._length) / _MEMORY

    def ahead(self, ended: int, slots: int) -> int:
        """Return how many jobs to claim ahead of free slots.

        Long jobs that started together end together, which looks like a high rate. But slots
        never complete more jobs per second than their number divided by the length of a job.
        """
        rate = self.rate(ended)
        if self._length > 0:
            rate = min(rate, slots / self._length)
        return int(rate * AHEAD_SECONDS)

    def rate(self, ended: int) -> float:
        passed = self._time() - self._since
        if passed >= AHEAD_SECONDS:
            # Halve the past: a worker whose jobs become long soon forgets the rate of short ones.
            self._rate = (self._rate + (ended - self._before) / passed) / 2
            self._since, self._before = self._time(), ended
        # Jobs that ended in the current interval show a rising rate before the interval is over.
        return max(self._rate, (ended - self._before) / AHEAD_SECONDS)


def free_resources(resources: Mapping[str, int], jobs: Iterable[Claimed]) -> dict[str, int]:
    """Return the resources of a worker that its jobs do not use."""
    free = dict(resources)
    for job in jobs:
        for name, amount in job.needed.items() if job.needs else ():
            free[name] = free.get(name, 0) - amount
    return free
