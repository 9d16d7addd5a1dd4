"""The nouns of a store: for each, what may be asked."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from duly.model.access import Actor
from duly.model.claimed import Claimed
from duly.model.flow import FlowInfo, FlowProgress, PartInfo
from duly.model.job import Attempt, Call, Job
from duly.model.job_filter import Filter
from duly.model.journal import Entry, LogLine, ProgressNote
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.states import State
from duly.model.worker import Order, Profile, WorkerInfo
from duly.store.protocol.access import Access
from duly.store.protocol.events import Events
from duly.store.protocol.evidence import Evidence
from duly.store.protocol.found import Failure, Page
from duly.store.protocol.schedules import Ledger, Schedules
from duly.store.protocol.surroundings import Surroundings
from duly.store.protocol.values import (
    Beat,
    Claims,
    Dispatched,
    Done,
    Judge,
    LaneInfo,
    Progress,
    Ready,
    Retention,
    Settled,
    Settlement,
    TakenBack,
    Trust,
    Turn,
    Wish,
)


class Jobs(Protocol):
    async def enqueue(self, calls: Sequence[Call]) -> list[int]:
        """Promise to run these: all of them, or none. Their numbers, in the order of the calls."""
        ...

    async def enqueue_once(self, calls: Sequence[Call], *, key: str, mark: str) -> list[int]:
        """The same, under a key of whom the store acts for: asked again, the numbers again.

        ``mark`` tells what is asked: with another one, ``WrongState``. A key is known for a day.
        """
        ...

    async def get(self, number: int) -> Job: ...

    async def page(self, *, after: int = 0, limit: int = 100) -> list[Job]:
        """Those that have not ended."""
        ...

    async def ended(
        self, state: State, *, since: datetime | None = None, limit: int = 100
    ) -> list[Job]:
        """Those that have: failed ones, or all the others. The newest first."""
        ...

    async def attempts(self, number: int) -> list[Attempt]: ...

    async def flow(self, number: int) -> FlowInfo | None:
        """The steps of a job that is a flow and has been opened. None: there are none."""
        ...

    async def parts(
        self, number: int, step: int, *, after: int = -1, limit: int = 100
    ) -> list[PartInfo]:
        """The jobs of a step of a flow."""
        ...

    async def flow_progress(self, numbers: Sequence[int]) -> dict[int, FlowProgress]:
        """How far those of the jobs are that are flows."""
        ...

    async def cancel(self, number: int, *, reason: str = "") -> State:
        """End a job that waits; ask one that runs to end. The state it is in then."""
        ...

    async def cancel_key(self, task: str, key: str, *, reason: str = "") -> bool: ...

    async def retry(self, number: int) -> Job:
        """Give a failed job another chance."""
        ...

    async def find(self, wanted: Filter, *, after: str | None = None, limit: int = 100) -> Page:
        """Those that match, what lives first; ``after`` is what the page before gave.

        Of what lives, the highest number first, which is about the newest; of what has ended, the
        last to end. A page looks at so many jobs and no more: it may be short, or empty, and not
        the last.
        """
        ...

    async def count(self, wanted: Filter, *, at_most: int = 10_000) -> int:
        """How many match; ``at_most`` means that there are as many or more."""
        ...

    async def failures(self, wanted: Filter, *, limit: int = 2_000) -> list[Failure]:
        """The newest that match and have failed, of the newest that have failed at all."""
        ...

    async def retry_found(self, wanted: Filter, *, first: int | None = None) -> list[int]:
        """Give another chance to those that match and have failed, the oldest failure first.

        Not one transaction but a row of them: what is done stays done.
        """
        ...

    async def cancel_found(self, wanted: Filter, *, reason: str = "") -> list[int]:
        """End those that match and wait; ask those that run to end. Which they were."""
        ...

    async def remove(self, number: int) -> None:
        """Forget a job that has ended, with its attempts and what it said."""
        ...

    async def remove_found(self, wanted: Filter) -> list[int]:
        """Forget those that match and have ended, the last to end first. Which they were.

        Not one transaction but a row of them: what is done stays done.
        """
        ...

    async def schedule_names(self, numbers: Sequence[int]) -> dict[int, str]:
        """What the schedules of jobs are called, by the numbers that jobs have of them."""
        ...


class Work(Protocol):
    async def register(self, profile: Profile, *, lease: timedelta) -> WorkerInfo:
        """Begin a lease."""
        ...

    async def renew(self, worker: int, lease: timedelta, *, running: int = 0) -> Beat | None:
        """Prolong a lease that is alive. None: this worker is dead, and must begin anew."""
        ...

    async def listen_to(self, worker: int) -> Beat | None:
        """The same words, without prolonging anything."""
        ...

    async def end_lease(self, worker: int) -> None:
        """Nothing of this worker runs any more: what it held may be taken back at once."""
        ...

    async def workers(self) -> list[WorkerInfo]: ...

    async def living(self) -> list[WorkerInfo]:
        """Those whose lease has not ended."""
        ...

    async def tell(self, worker: str | int, order: Order, *, slots: int | None = None) -> int:
        """Give an order to the workers of a name, or to one by its number: how many there are."""
        ...

    async def turn(self, done: Sequence[Done], wish: Wish | None = None) -> Turn:
        """Finish what is done, and take what is wished, in one go where the database can.

        Only from a queue that is plain: not paused, limited or fair. After ``OutcomeUnknown``, what
        is done may be given again, and ``held`` tells what was taken.
        """
        ...

    async def claim(self, wish: Wish) -> Claims:
        """Take jobs to run, the most urgent first, under the limits of their queue and their own.

        After ``OutcomeUnknown``, ask ``held``.
        """
        ...

    def has_room(self, queues: Sequence[str]) -> None:
        """Tell others that jobs of these queues have ended, and the next may enter."""
        ...

    async def ready(self, queues: Sequence[str], tasks: Sequence[str]) -> list[Ready]:
        """Return the queues and shelves that have a job for a worker that knows these tasks."""
        ...

    async def held(self, worker: int) -> list[Claimed]:
        """The jobs that this worker has claimed and not settled."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Write what became of jobs, in one go, each under the fence of its claim."""
        ...

    async def set_queue(self, queue: Queue) -> None: ...

    async def queues(self) -> list[Queue]: ...


class Limits(Protocol):
    async def listed(self, *, limit: int = 1_000) -> list[LaneInfo]:
        """The limits that jobs have met, the last used first."""
        ...

    async def set(self, name: str, *, concurrency: int | None, rate: Rate | None) -> None:
        """Say what counts for a limit, by its name or its template, whatever code says."""
        ...

    async def unset(self, name: str) -> None: ...


class Journal(Protocol):
    async def write(self, entries: Sequence[Entry]) -> None:
        """Write down what jobs have said, in one go, each only if it is run under the fence.

        What a worker that lost its lease has to say is dropped, and what is too much for one job.
        """
        ...

    async def logs(self, job_id: int, *, after: int = 0, limit: int = 1_000) -> list[LogLine]:
        """The lines behind the number ``after``."""
        ...

    async def note(self, job_id: int) -> ProgressNote | None:
        """How far a job says it is."""
        ...


class Upkeep(Protocol):
    """Whoever gives ``trust`` has the database's clock judged before anything is done by it."""

    async def dispatch(self, *, limit: int, trust: Trust | None = None) -> Dispatched:
        """Make due jobs ready, expire or hurry those that are late."""
        ...

    async def answer(self, *, limit: int) -> int:
        """End the steps that waited for something that has happened. How many."""
        ...

    async def sweep(self, *, limit: int) -> int:
        """The nets: free what waits behind nothing. How many were found."""
        ...

    async def hold_unknown(
        self, *, patience: timedelta, limit: int, trust: Trust | None = None
    ) -> int:
        """Set jobs aside whose task no living worker knows, so that they hide nobody."""
        ...

    async def free_unfit(self, *, limit: int) -> int:
        """Set those free that wait for a worker who lives now, knowing their task or another form.

        How many; as many as the limit: there are more.
        """
        ...

    async def take_back(
        self,
        judge: Judge,
        *,
        after: int,
        margin: timedelta,
        limit: int,
        trust: Trust | None = None,
    ) -> TakenBack:
        """Take jobs back from workers whose lease has expired, or was ended for them.

        By a clock that is not believed no lease has expired; one that was ended is over anyway.
        """
        ...

    async def make_days(self, *, trust: Trust | None = None) -> None:
        """Make room for the days to come."""
        ...

    async def prune(self, retention: Retention, *, limit: int, trust: Trust | None = None) -> int:
        """Forget what is old. How many rows went; as many as the limit: there are more."""
        ...

    async def progress(self) -> Progress: ...


class Store(Protocol):
    """Everything that is remembered."""

    @property
    def schedules(self) -> Schedules: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def jobs(self) -> Jobs: ...
    @property
    def work(self) -> Work: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def upkeep(self) -> Upkeep: ...
    @property
    def events(self) -> Events: ...
    @property
    def evidence(self) -> Evidence: ...
    @property
    def surroundings(self) -> Surroundings: ...
    @property
    def access(self) -> Access: ...
    @property
    def actor(self) -> Actor | None:
        """In whose name it is changed."""
        ...

    @property
    def who(self) -> str:
        """The name under which changes are recorded; empty without an actor."""
        ...

    def acting(self, actor: Actor, /) -> "Store":
        """The same store; what is changed through it is in the audit log, under this name."""
        ...

    def listen(self, listener: Callable[[str], None], /) -> None:
        """Call with a topic when something changed, here or in another process. Only a hint."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...
