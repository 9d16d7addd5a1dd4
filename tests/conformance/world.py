"""What a check can do: move the clock, be the scheduler, be a worker, and look."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from duly.model.access import Actor
from duly.model.fire import StoredFire
from duly.model.job import Claimed, JobRequest, StoredJob
from duly.model.outcome import Lost, Opened, Outcome, Succeeded
from duly.model.payload import Json
from duly.model.schedule import Plan, StoredSchedule
from duly.policy.firing import decide
from duly.policy.retry import NEVER
from duly.policy.verdict import Tried, Verdict, judge
from duly.store.database import Database, Operation, T
from duly.store.ids import Ids, reserve
from duly.store.ledger import FiringResult
from duly.store.maintenance import Dispatched, TakenBack
from duly.store.store import SqlStore, Store
from duly.store.values import (
    SHELVES,
    ClaimRequest,
    Decide,
    FinishedAndClaimed,
    HeldJob,
    JobDone,
    LostJob,
    Offer,
    Settled,
    Settlement,
)
from duly.testing.clock import VirtualClock
from tests.conformance.expect import NotApplicable
from tests.factories import profile

START = datetime(2026, 3, 2, 12, tzinfo=UTC)  # a Monday, far from any clock change
LEASE = timedelta(seconds=15)
MARGIN = timedelta(seconds=2)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TASKS = ("work", "the task")
NOTHING: Mapping[str, int] = {}


class World:
    """A store, a clock, and everybody who works with them."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store = store
        self.clock = clock
        self.worker = 0  # the one that claims when no other is named

    @property
    def database(self) -> Database:
        """What is below the store, for checks that must look there."""
        if not isinstance(self.store, SqlStore):
            raise NotApplicable("this store is not a SqlStore")
        return self.store.database

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def listen(self) -> list[str]:
        """Return the list of the topics from now on, without that of a listener that connects."""
        heard: list[str] = []
        self.store.listen(lambda topic: None if topic == "*" else heard.append(topic))
        return heard

    def wait(self, length: timedelta) -> None:
        self.clock.advance(length)

    def by(self, who: str) -> Store:
        """The store as somebody who changes it."""
        return self.store.acting(Actor(who, "program"))

    def another_node(self) -> "World":
        """A second process on the same database."""
        return World(SqlStore(self.database), self.clock)

    async def write(self, start: Callable[[Ids], Operation[T]]) -> T:
        """Run an operation that no call of the store makes; it may draw a thousand numbers."""
        ids = Ids()
        ids.add(await self.database.write(reserve))
        return await self.database.write(lambda: start(ids))

    async def add(self, *plans: Plan) -> StoredSchedule:
        return (await self.store.schedules.add(plans))[0]

    async def fire(
        self, *, limit: int = 100, decide: Decide = decide, offer: Offer | None = None
    ) -> FiringResult:
        return await self.store.ledger.fire(decide, limit=limit, trust=lambda _: True, offer=offer)

    async def fire_after(self, length: timedelta) -> None:
        """Let time pass, and fire."""
        self.wait(length)
        await self.fire()

    async def fired_after(self, length: timedelta) -> list[StoredFire]:
        """The same, and what was written for "report" then, oldest first."""
        await self.fire_after(length)
        return [fire for fire in await self.fires() if fire.decided_at == self.now]

    async def fires(self, name: str = "report") -> list[StoredFire]:
        """The ledger, oldest first."""
        return (await self.store.ledger.fires(name, limit=20_000))[::-1]

    async def schedule(self, name: str = "report") -> StoredSchedule:
        return await self.store.schedules.get(name)

    async def enqueue(self, *calls: JobRequest) -> int:
        return (await self.store.jobs.enqueue(calls))[0]

    async def job(self, number: int | None) -> StoredJob:
        return await self.store.jobs.get(number or 0)

    async def live(self) -> list[StoredJob]:
        return await self.store.jobs.page(limit=20_000)

    async def states(self) -> list[str]:
        """Of the jobs that have not ended, in the order of their moments."""
        return [str(job.state) for job in sorted(await self.live(), key=lambda j: (j.due_at, j.id))]

    async def dispatch(self) -> Dispatched:
        return await self.store.maintenance.dispatch(limit=1_000)

    async def free_unfit(self, *, limit: int = 1_000) -> int:
        return await self.store.maintenance.free_unfit(limit=limit)

    async def new_worker(self, *, lease: timedelta = LEASE, **changes: Any) -> int:
        return (await self.store.work.register(profile(**changes), lease=lease)).id

    async def the_worker(self) -> int:
        """The one that claims when no other is named: its lease is long."""
        self.worker = self.worker or await self.new_worker(lease=timedelta(days=4_000))
        return self.worker

    async def claim(
        self,
        limit: int = 1,
        *,
        worker: int | None = None,
        queue: str = "default",
        tasks: Sequence[str] = TASKS,
        free: Mapping[str, int] = NOTHING,
    ) -> list[StoredJob]:
        """Claim from one shelf after the other."""
        found: list[StoredJob] = []
        for shelf in SHELVES:
            request = await self.claim_request(
                limit - len(found), worker=worker, queue=queue, tasks=tasks, shelf=shelf, free=free
            )
            if request.limit > 0:
                found += [claimed.job for claimed in (await self.store.work.claim(request)).jobs]
        return found

    async def ready(self, *queues: str) -> list[tuple[str, int]]:
        """Where there is something to claim for a worker that knows the usual tasks."""
        found = await self.store.work.ready(queues or ["default"], TASKS)
        return [(place.queue, place.shelf) for place in found]

    async def claim_request(
        self, limit: int = 1, *, worker: int | None = None, **changes: Any
    ) -> ClaimRequest:
        """For a worker whose lease is long, unless another is named."""
        worker = await self.the_worker() if worker is None else worker
        return ClaimRequest(
            **{"queue": "default", "tasks": TASKS, **changes}, worker=worker, limit=limit
        )

    async def finish_and_claim(
        self, limit: int = 1, *done: JobDone, **changes: Any
    ) -> FinishedAndClaimed:
        """Finish what is done, and claim in passing."""
        return await self.store.work.finish_and_claim(
            done, await self.claim_request(limit, **changes)
        )

    async def signals(self, worker: int | None = None) -> Mapping[int, str]:
        """What a worker hears about its jobs."""
        beat = await self.store.work.listen_to(self.worker if worker is None else worker)
        return beat.signals if beat else {}

    async def begin(self) -> StoredJob:
        """Let a worker begin the one job that is ready."""
        [job] = await self.claim(1)
        return job

    async def end(self, job: StoredJob | Claimed, outcome: Outcome | None = None) -> Settled:
        """Let the worker say what became of a job."""
        return await self.store.work.settle([self.settlement(job, outcome)])

    def settlement(self, job: StoredJob | Claimed, outcome: Outcome | None = None) -> Settlement:
        came_to = outcome or Succeeded()
        verdict = judge(Tried.of(job, NEVER), came_to, self.now, dice=0.5)
        result: Json | None = came_to.result if isinstance(came_to, Succeeded) else None
        return Settlement(
            job=job,
            verdict=verdict,
            outcome=type(came_to).__name__.lower(),
            result=result,
            opens=came_to.plan if isinstance(came_to, Opened) else None,
        )

    async def take_back(self, *, after: int = 0, limit: int = 100) -> TakenBack:
        return await self.store.maintenance.take_back(
            judge_lost, after=after, margin=MARGIN, limit=limit
        )

    async def lose(self, job: HeldJob) -> TakenBack:
        """Let the worker of a job die, and take back what it held."""
        worker = (await self.job(job.id)).worker
        await self.store.work.end_lease(worker or 0)
        self.worker = 0
        return await self.take_back()


def judge_lost(job: LostJob, now: datetime) -> Verdict:
    return judge(Tried.of(job, NEVER), Lost(job.worker, alone=job.alone), now, dice=0.5)
