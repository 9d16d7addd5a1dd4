"""Decides what a worker claims next, and from which queue.

A claim goes to one shelf of one queue. Queues take turns. In each queue, claims alternate between
jobs of schedules and enqueued jobs, so that neither starves behind the other. One claim in eight
goes to the low shelf, so that low priority does not starve either, and one each to the shelves of
jobs that need resources and of suspect jobs. Idle jobs are claimed only when no other job is known.

Nothing here is certain: a shelf that is believed to hold jobs may be empty. A nudge is a hint, a
peek at the store is news, and a claim that brings less than it asked for empties the shelf.
"""

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from duly.engine.journal_writer import JournalWriter
from duly.engine.loop import EVERYBODY
from duly.engine.runner import ALONE, Runner
from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.model.job import Claimed
from duly.model.limit import Queue
from duly.model.schedule import Plan
from duly.store.ledger import FiringResult
from duly.store.store import Store
from duly.store.values import (
    CAREFUL,
    CLOCK,
    FIRED,
    IDLE,
    LOW,
    NO_FLOOR,
    NORMAL,
    QUEUES,
    READY,
    SUSPECT,
    ClaimRequest,
    Claims,
    Offer,
    ReadyShelf,
)

# The shelf that is tried first, by turns; if it is believed to be empty, the others follow.
_FIRST = (CLOCK, NORMAL, CLOCK, NORMAL, CLOCK, SUSPECT, CAREFUL, LOW)
_OTHERS = (NORMAL, CLOCK, CAREFUL, LOW, SUSPECT)


class QueueShelf(NamedTuple):
    """One shelf of one queue: normal, low, idle, with resources, suspect, or from the clock."""

    queue: str
    shelf: int


class QueueRotation:
    """The order in which shelves are tried, and which of them are believed to hold jobs."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._line = list(queues)
        self._shelves: dict[str, set[int]] = {queue: set() for queue in queues}
        self._looks = dict.fromkeys(queues, 0)
        self._among: dict[QueueShelf, Sequence[str]] = {}

    @property
    def queues(self) -> list[str]:
        return sorted(self._shelves)

    @property
    def knows_nothing(self) -> bool:
        return not any(self._shelves.values())

    def knows_of_more(self, *, shut: Container[str] = ()) -> bool:
        """Return whether a shelf of a queue that is not shut is believed to hold jobs."""
        return any(shelves for queue, shelves in self._shelves.items() if queue not in shut)

    def hint(self, queue: str | None = None, *, shelf: int = NORMAL) -> None:
        """A job became ready, in this queue or in any."""
        for name in [queue] if queue else self._line:
            if name in self._shelves:
                self._shelves[name].add(shelf)

    def seen(self, places: Iterable[ReadyShelf | tuple[str, int]]) -> None:
        """Replace what is believed by what the store says."""
        for shelves in self._shelves.values():
            shelves.clear()
        self._among.clear()
        for queue, shelf, *among in places:
            self._shelves[queue].add(shelf)
            self._among[QueueShelf(queue, shelf)] = among[0] if among else ()

    def among(self, place: QueueShelf) -> Sequence[str]:
        """Return our tasks on a shelf that holds jobs of other tasks too; else nothing."""
        return self._among.get(place, ())

    def put_back(self, place: QueueShelf) -> None:
        """Believe again that the shelf holds jobs."""
        self._shelves[place.queue].add(place.shelf)

    def emptied(self, place: QueueShelf) -> None:
        self._shelves[place.queue].discard(place.shelf)

    def next(
        self, *, suspects: bool = True, careful: bool = True, shut: Container[str] = ()
    ) -> QueueShelf | None:
        """Return the next shelf to claim from; its queue goes to the end of the rotation."""
        unwanted = ({SUSPECT} if not suspects else set()) | ({CAREFUL} if not careful else set())
        for shelf_of in (self._work, self._idle_work):
            for queue in [queue for queue in self._line if queue not in shut]:
                shelf = shelf_of(queue, unwanted)
                if shelf is not None:
                    self._line.remove(queue)
                    self._line.append(queue)
                    self._looks[queue] += 1
                    return QueueShelf(queue, shelf)
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


# A full queue is tried again after this, if no nudge comes.
LOOK_SECONDS = 0.4
# A shorter rest would be rounded to none.
SOONEST = timedelta(milliseconds=1)


class ClosedQueues:
    """Queues that are at their limit, and when to try them again."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._until: dict[str, float] = {}
        self._full: set[str] = set()  # those at their concurrency limit

    def shut(self, queue: str, opens_in: timedelta | None) -> None:
        seconds = LOOK_SECONDS if opens_in is None else opens_in.total_seconds()
        self._until[queue] = self._time() + seconds
        if opens_in is None:
            self._full.add(queue)

    def open(self, queue: str) -> None:
        self._until.pop(queue, None)
        self._full.discard(queue)

    def ended(self, queues: Iterable[str]) -> None:
        """Open queues at their concurrency limit in which jobs have ended."""
        for queue in self._full.intersection(queues):
            self.open(queue)

    def shut_now(self) -> set[str]:
        now = self._time()
        for queue in [queue for queue, until in self._until.items() if until <= now]:
            self.open(queue)
        return set(self._until)

    def next_look(self) -> timedelta | None:
        """Return how long until the first of them opens."""
        # Without those that are open by now: a worker with full slots would not rest at all.
        if not self.shut_now():
            return None
        return max(SOONEST, timedelta(seconds=min(self._until.values()) - self._time()))


class ShelfPlanner:
    """Decides where a worker claims next; shared by native and HTTP workers."""

    def __init__(
        self, *, queues: Sequence[str], tasks: Sequence[str], time: Callable[[], float]
    ) -> None:
        self.tasks = tasks
        self.rotation: QueueRotation = QueueRotation(queues)
        self.closed: ClosedQueues = ClosedQueues(time)
        self._tenant: dict[str, str] = {}  # of the last job of each queue: tenants take turns

    def _claim_from(
        self,
        shelf: QueueShelf,
        *,
        worker: int,
        tasks: Sequence[str],
        limit: int,
        floor: int = NO_FLOOR,
        among: Sequence[str] = (),
        free: Mapping[str, int],
    ) -> ClaimRequest:
        return ClaimRequest(
            worker=worker,
            queue=shelf.queue,
            tasks=tasks,
            limit=limit,
            shelf=shelf.shelf,
            floor=floor,
            among=among,
            after=self._tenant.get(shelf.queue, ""),
            free=free if shelf.shelf == CAREFUL else {},
        )

    def _note_claim(self, found: Claims, request: ClaimRequest, shelf: QueueShelf) -> None:
        """Remember what a claim says about its shelf: the queue is full, or the shelf empty."""
        other_tasks = bool(request.among and found.jobs)  # it holds jobs of other tasks, too
        if found.full:
            self.closed.shut(shelf.queue, found.opens_in)
        elif len(found.jobs) < request.limit and not other_tasks:
            self.rotation.emptied(shelf)
        if found.jobs:
            self._tenant[shelf.queue] = found.jobs[-1].tenant


BATCH = 1_000
PEEK_SECONDS = 0.4
# While claims succeed: many normal jobs would hide jobs on other shelves.
BUSY_PEEK_SECONDS = 1.0
SETTINGS_SECONDS = 5.0
# A transaction that enqueues jobs may end this much later than others that began with it.
LATE_US = 500_000
# Of a backlog, the transactions that began together have ended long ago.
BACKLOG_LATE_US = 50_000
SEARCH_SECONDS = 1.0
# A search that takes longer than this is followed by a pause of 19 times its length.
CHEAP_SECONDS = 0.005
PAUSE = 19
# … but not longer than this: the whole store may have been slow for once, and a job may wait below
# the floor.
LONGEST_PAUSE = 10.0


class ClaimFloors:
    """The rank at which a claim from each shelf begins its search.

    The rank of a job is the time at which it became ready, less a second for each priority. A claim
    leaves no job below the last one that it took, and none at all if it took fewer than it might.
    Jobs that become ready later have higher ranks, so that the next claim can begin there. Without
    such a floor, and while somebody keeps a transaction open, every claim on PostgreSQL reads the
    index entries of all jobs that have ended since.

    A job can become ready below the floor: its transaction took long to commit, its priority is
    higher than any seen here, or it was blocked and kept its rank. So a shelf is searched without a
    floor when a claim has brought nothing, and once a second; where that is expensive, in a
    twentieth of the time, and every ten seconds at least.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._floors: dict[QueueShelf, int] = {}
        self._highest: dict[QueueShelf, int] = {}  # the highest priority that was seen
        # A search without a floor is made at the time that is due, and never before the soonest.
        self._soonest: dict[QueueShelf, float] = {}
        self._due: dict[QueueShelf, float] = {}
        self._ahead: int | None = None  # microseconds from our clock to that of the store

    def of(self, place: QueueShelf) -> int:
        if self._time() >= self._due.get(place, 0.0):
            return NO_FLOOR
        return self._floors.get(place, NO_FLOOR)

    def note(
        self, jobs: Sequence[Claimed], request: ClaimRequest, place: QueueShelf, *, sent: float
    ) -> None:
        """Set the floor of the next claim from a claim of all tasks, which was ``sent`` then."""
        now = self._time()
        if request.floor == NO_FLOOR:
            pause = expensive_pause(now - sent)
            self._soonest[place] = now + pause
            self._due[place] = now + max(SEARCH_SECONDS, pause)
        elif not jobs:
            self._due[place] = self._soonest[place]
        if jobs:
            self._ahead = jobs[0].claimed_at - _us(now)
            seen = max(job.priority for job in jobs)
            self._highest[place] = max(seen, self._highest.get(place, 0))
        if self._ahead is None:
            return
        floor = self._ahead + _us(sent) - _us(self._highest.get(place, 0)) - LATE_US
        if len(jobs) >= request.limit:
            floor = min(floor, jobs[-1].rank - BACKLOG_LATE_US)
        self._floors[place] = floor

    def forget(self, place: QueueShelf) -> None:
        self._floors.pop(place, None)

    def clear(self) -> None:
        self._floors.clear()


def expensive_pause(seconds: float) -> float:
    """Return the pause after a search that took so long: searches may take 5 % of the time."""
    return min(PAUSE * seconds, LONGEST_PAUSE) if seconds > CHEAP_SECONDS else 0.0


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)


class ClaimPlanner(ShelfPlanner):
    """Plans the claims of a native worker; its two claimers share it."""

    def __init__(
        self, store: Store, runner: Runner, *, queues: Sequence[str], tasks: Sequence[str]
    ) -> None:
        super().__init__(queues=queues, tasks=tasks, time=runner.time)
        self.store = store
        self.runner = runner
        self.worker: int | None = None  # None: no lease yet, or not any more
        self.busy: int = 0
        self.claiming: int = 0  # jobs of claims under way
        self.journal: JournalWriter | None = None
        self.pulse: float = runner.time()
        self.peeked_at: float = float("-inf")
        self._peek_from: float = float("-inf")
        self.nudged: bool = False  # since then
        self.lost_answer: bool = False  # a claim may have succeeded whose answer was lost
        self._has_claimed = True  # since the last peek, or there was none
        self._found_empty: set[QueueShelf] = set()
        self._passed_over: set[QueueShelf] = set()  # shelves with jobs whose executor was full
        self._crowded = False  # a claim brought more jobs than executors had slots
        self._settings: dict[str, Queue] = {}
        self._settings_at = float("-inf")
        self._floors = ClaimFloors(runner.time)
        self.topics: frozenset[str] = frozenset(
            {READY, QUEUES, EVERYBODY, f"work:{id(self)}"}
            | {f"{topic}:{queue}" for topic in (READY, FIRED) for queue in queues}
        )
        self.own_topic: str = f"work:{id(self)}"
        self.second_topic: str = f"help:{id(self)}"

    @property
    def is_idle(self) -> bool:
        """Return whether no job is here, being claimed, or in doubt."""
        return self.runner.is_idle and not self.busy and not self.lost_answer

    def hear(self, topic: str) -> None:
        """Note a nudge; the claimers wake by it too."""
        kind, _, queue = topic.partition(":")
        if kind == FIRED:
            self.rotation.hint(queue, shelf=CLOCK)
            return  # the topic says where the job is: no peek
        if kind == READY and queue:
            self.rotation.hint(queue)
            self.closed.open(queue)
        elif kind == READY:
            self.rotation.hint()
            self.rotation.hint(shelf=CLOCK)  # the job may come from a schedule
        elif topic == QUEUES:
            self._settings_at = float("-inf")
        elif topic != EVERYBODY:
            return
        # A hint is only about normal jobs, and the nudge may be about others: peek at the store.
        # Only a peek, because a claim is a write, which would nudge other workers.
        self.nudged = True

    def enlisted(self, worker: int) -> None:
        self.worker = worker
        self.rotation.hint()

    async def run_fired(
        self, fire: Callable[[Offer | None], Awaitable[FiringResult]]
    ) -> FiringResult:
        """Fire schedules; if the worker has no jobs, claim one in the same transaction and run it.

        A worker with jobs leaves it to the others, which may have none.
        """
        runner, worker = self.runner, self.worker
        has_jobs = runner.running or runner.prefetched or self.claiming or self.lost_answer
        if worker is None or has_jobs or runner.wanted <= 0:
            return await fire(None)
        self.busy += 1
        self.claiming += 1
        try:
            fired = await fire(partial(self._offer, worker))
        except BaseException:
            # Whatever the error says: of two transactions, the first may have claimed a job.
            self.lost_answer = True
            raise
        finally:
            self.claiming -= 1
            self.busy -= 1
            if self.lost_answer or self.knows_of_more:
                self.runner.wake()  # a claimer may have found the last slot taken meanwhile
        self.take(fired.claimed, worker)
        return fired

    def _offer(self, worker: int, plan: Plan) -> ClaimRequest | None:
        """Return the claim of a job of this schedule; None if the worker cannot run it."""
        if plan.queue not in self.rotation.queues or plan.task not in self.tasks:
            return None
        shelf = QueueShelf(plan.queue, CLOCK)
        return self._claim_from(shelf, worker=worker, tasks=self.tasks, limit=1, free={})

    async def settings(self, queue: str) -> Queue:
        if self._settings_at == float("-inf"):
            await self.refresh_settings()
        return self._settings.get(queue) or Queue(name=queue)

    async def refresh_settings(self) -> None:
        """Read the settings of the queues again, after a while.

        After a claim and not before it, so that no job waits for it: a claim by old settings takes
        nothing from a queue that was paused or limited since.
        """
        if self.runner.time() - self._settings_at >= SETTINGS_SECONDS:
            self._settings_at = self.runner.time()
            self._settings = {queue.name: queue for queue in await self.store.work.queues()}

    async def next_claim(
        self, limit: int, *, plain: bool = False
    ) -> tuple[ClaimRequest, QueueShelf] | None:
        """Return the next claim and its shelf; ``plain`` leaves out suspect and resource shelves.

        On those, two claimers together would claim too much.
        """
        room = self.runner.room
        tasks = self._startable(room)
        if self.worker is None or limit <= 0 or not tasks:
            return None
        if self._crowded and tasks is self.tasks:
            limit = max(1, min(limit, *room.values()))
        place = self._next(plain=plain, room=room)
        if self._should_peek(place):
            await self._peek()
            place = place or self._next(plain=plain, room=room)
        if place is None or self.worker is None:
            return None
        seen = self.rotation.among(place)
        among = [task for task in seen if task in tasks]
        if seen and not among:  # its jobs are for others, or for an executor that is full
            self._passed_over.add(place)
            self.rotation.emptied(place)
            return await self.next_claim(limit, plain=plain)
        suspects = place.shelf == SUSPECT
        request = self._claim_from(
            place,
            worker=self.worker,
            tasks=tasks,
            limit=self._of_suspects(limit) if suspects else min(limit, BATCH),
            floor=self._floors.of(place),
            among=among,
            free=self.runner.free if place.shelf == CAREFUL else {},
        )
        return request, place

    def _startable(self, room: Mapping[str, int]) -> Sequence[str]:
        """Return the tasks whose executor has free slots; ``self.tasks`` itself if all have."""
        full = {name for name, free in room.items() if free <= 0}
        if full:
            tasks = tuple(task for task in self.tasks if self.runner.executor_of(task) not in full)
            if len(tasks) < len(self.tasks):
                self._floors.clear()  # jobs that are passed over are older than those claimed
                return tasks
        for place in self._passed_over:
            self.rotation.put_back(place)
        self._passed_over.clear()
        return self.tasks

    def _next(self, *, plain: bool, room: Mapping[str, int]) -> QueueShelf | None:
        suspects = room.get(ALONE, 1) > 0 if self.runner.isolates else not self.runner.has_suspect
        return self.rotation.next(
            suspects=suspects and not plain, careful=not plain, shut=self.closed.shut_now()
        )

    def _should_peek(self, place: QueueShelf | None) -> bool:
        age = self.runner.time() - self.peeked_at
        if self.runner.time() < self._peek_from:
            return False
        if place is None:
            return self.nudged or age >= PEEK_SECONDS
        return self._has_claimed and age >= BUSY_PEEK_SECONDS

    async def _peek(self) -> None:
        self.peeked_at = self.runner.time()
        self.nudged = False  # a nudge from now on may be missed by this peek
        self._has_claimed = False
        try:
            found = await self.store.work.ready(self.rotation.queues, self.tasks)
        except BaseException:
            self.nudged = True
            raise
        now = self.runner.time()
        self._peek_from = now + min(expensive_pause(now - self.peeked_at), BUSY_PEEK_SECONDS)
        if not self._found_empty.isdisjoint(QueueShelf(*one[:2]) for one in found):
            self._settings_at = float("-inf")  # perhaps the settings of the queue have changed
        self._found_empty.clear()
        self.rotation.seen(found)

    def _of_suspects(self, limit: int) -> int:
        """Return how many suspect jobs to claim: one, or the free slots if each has a process.

        None is prefetched: the next one may crash this worker.
        """
        if not self.runner.isolates:
            return 1
        return max(1, min(limit, self.runner.slots - len(self.runner.running)))

    @property
    def knows_of_more(self) -> bool:
        return self.nudged or self.rotation.knows_of_more(shut=self.closed.shut_now())

    def is_limited(self, queue: str) -> bool:
        settings = self._settings.get(queue)
        return settings is not None and settings.concurrency is not None

    def accept(
        self, found: Claims, request: ClaimRequest, place: QueueShelf, *, sent: float
    ) -> None:
        """Take the jobs of a claim, and remember what it says about its shelf."""
        jobs, all_asked = found.jobs, request.tasks is self.tasks
        self._has_claimed = True
        self._note_claim(found, request, place)
        if not all_asked:
            self._passed_over.add(place)
        elif not jobs:
            self._found_empty.add(place)
        if all_asked and not request.among and place.shelf != CAREFUL and self._is_plain(place):
            self._floors.note(jobs, request, place, sent=sent)
        else:
            self._floors.forget(place)
        self.take(jobs, request.worker)
        if all_asked:
            limited = self.runner.are_limited(jobs)
            self._crowded = limited and (self._crowded or min(self.runner.room.values()) < 0)

    def take(self, jobs: Sequence[Claimed], worker: int | None) -> None:
        """Run claimed jobs, unless the worker has lost the lease of the claim."""
        if worker == self.worker:
            self.runner.take(jobs)
        else:
            self.runner.give_back(jobs, "given back unstarted: its worker lost its lease")

    def _is_plain(self, place: QueueShelf) -> bool:
        settings = self._settings.get(place.queue)
        return settings is None or settings.plain


def may_be_done(error: BaseException) -> bool:
    """Return whether the store may have done what was asked, although the call failed."""
    return isinstance(error, OutcomeUnknown) or not isinstance(error, StoreUnavailable)
