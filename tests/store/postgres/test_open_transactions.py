"""A caller's transaction that stays open holds up nobody else."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from duly.clock import Timeout
from duly.engine.claim_planner import ClaimFloors, QueueShelf
from duly.engine.maintenance import Reactor
from duly.errors import Busy
from duly.instants import to_us
from duly.model.event import Emitted
from duly.model.flow import Awaited, FlowPlan, StepPlan
from duly.model.job import Claimed, JobRequest
from duly.model.limit import NamedLimit
from duly.model.outcome import Opened
from duly.model.payload import encode
from duly.model.states import Move, State
from duly.policy.verdict import Verdict
from duly.store import finish_and_claim
from duly.store.caller_connection import aenqueue_on
from duly.store.connect import connect
from duly.store.migrate import migrate
from duly.store.statements import for_psycopg, statements
from duly.store.store import SqlStore
from duly.store.values import CAREFUL, CLOCK, NO_FLOOR, NORMAL, ClaimRequest, JobDone, Settlement
from duly.testing.clock import VirtualClock
from tests.conformance.world import World
from tests.factories import plan, profile
from tests.store.postgres.notes import is_waiting_for_a_lock

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
async def store(pg_dsn: str, clock: VirtualClock) -> AsyncIterator[SqlStore]:
    store = connect(pg_dsn, clock=clock)
    await store.open()
    await migrate(store.database)
    yield store
    await store.close()


@pytest.fixture
async def caller(pg_dsn: str, store: SqlStore) -> AsyncIterator[psycopg.AsyncConnection]:
    """Somebody in the middle of a transaction that does not end."""
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        yield connection
        await connection.rollback()


async def test_due_jobs_are_made_ready_beside_a_late_one_that_somebody_moves(
    store: SqlStore, clock: VirtualClock, caller: psycopg.AsyncConnection
) -> None:
    late = JobRequest(task="late", key="k", run_after=MINUTE, start_within=timedelta(seconds=1))
    await store.jobs.enqueue([late, *[JobRequest(task="due", run_after=MINUTE)] * 5])
    await aenqueue_on(caller, [late])
    clock.advance(2 * MINUTE)
    async with Timeout(30):
        done = await store.maintenance.dispatch(limit=100)
    assert (done.ready, done.expired) == (5, 0)


@pytest.mark.parametrize("shelf", [NORMAL, CAREFUL])
async def test_jobs_are_claimed_beside_one_that_somebody_holds(
    store: SqlStore, caller: psycopg.AsyncConnection, shelf: int
) -> None:
    limits = (NamedLimit(name="crm", template="crm", concurrency=10),) if shelf == CAREFUL else ()
    held, free = await store.jobs.enqueue([JobRequest(task="work", limits=limits)] * 2)
    worker = await store.work.register(profile("w"), lease=MINUTE)
    await caller.execute("select from duly.job where id = %s for update", [held])
    request = ClaimRequest(worker=worker.id, queue="default", tasks=["work"], limit=2, shelf=shelf)
    async with Timeout(30):
        claimed = (await store.work.claim(request)).jobs
    assert [job.id for job in claimed] == [free]


async def test_a_slow_finish_and_claim_holds_no_job_that_another_worker_claimed_meanwhile(
    store: SqlStore, clock: VirtualClock, caller: psycopg.AsyncConnection, pg_dsn: str
) -> None:
    world = World(store, clock)
    await store.jobs.enqueue([JobRequest(task="work")] * 5)
    first, slow = (await world.finish_and_claim(2)).jobs
    await world.finish_and_claim(0, JobDone(first.id, first.fence))  # makes the day's partition
    await caller.execute("select from duly.job where id = %s for update", [slow.id])
    worker = ClaimRequest(worker=world.worker, queue="default", tasks=["work"], limit=1)
    ask = finish_and_claim.ask([JobDone(slow.id, slow.fence)], worker)
    text = for_psycopg(statements(store.database.dialect)[ask.statement])
    async with await psycopg.AsyncConnection.connect(pg_dsn) as other:
        held_up = asyncio.create_task(other.execute(text, {"now": to_us(clock()), **ask.values}))
        await is_waiting_for_a_lock(pg_dsn)
        meanwhile = (await world.finish_and_claim(3)).jobs
        await caller.rollback()
        await held_up  # and its transaction stays open
        async with Timeout(30):
            done = [JobDone(job.id, job.fence) for job in meanwhile]
            finished = await store.work.finish_and_claim(done)
        assert len(finished.kept) == 2
        await other.rollback()


async def test_jobs_are_finished_beside_one_whose_schedule_somebody_changes(
    store: SqlStore, clock: VirtualClock, caller: psycopg.AsyncConnection
) -> None:
    """Its jobs may not overlap since an edit, so its end is decided under the schedule's lock."""
    world = World(store, clock)
    await world.add(plan(rule="every 1m", overlap="allow"))
    await world.fire_after(MINUTE)
    [edited] = (await world.finish_and_claim(1, shelf=CLOCK)).jobs
    await store.jobs.enqueue([JobRequest(task="work")] * 2)
    [plain] = (await world.finish_and_claim(1)).jobs
    await store.schedules.edit(
        "report", lambda old: replace(old, policies=replace(old.policies, overlap="queue_all"))
    )
    await caller.execute("select from duly.schedule where name = 'report' for update")
    done = [JobDone(job.id, job.fence) for job in (edited, plain)]
    async with Timeout(30):
        turn = await world.finish_and_claim(1, *done)
    assert (list(turn.kept), list(turn.refused), len(turn.jobs)) == ([plain.id], [], 1)
    with pytest.raises(Busy):
        await store.work.settle(turn.unsettled)
    await caller.rollback()
    assert (await store.work.settle(turn.unsettled)).kept == [edited.id]


async def test_a_claim_does_not_read_what_has_ended_since_somebody_began_to_look(
    store: SqlStore, clock: VirtualClock, caller: psycopg.AsyncConnection, pg_dsn: str
) -> None:
    """Vacuum removes nothing while a snapshot is kept, and every index entry would be read."""
    await caller.execute("set transaction isolation level repeatable read")
    await caller.execute("select from duly.job")
    worker = Searcher(store, clock, (await store.work.register(profile("w"), lease=MINUTE)).id)
    large = JobRequest(task="work", args=encode({"text": "x" * 1_000}))  # seven on a page
    for _ in range(15):  # it keeps up
        await store.jobs.enqueue([large] * 200)
        clock.advance(timedelta(seconds=0.6))
        assert await worker.claim(limit=1_000) == 200
    assert await worker.pages(pg_dsn, NO_FLOOR) > 500
    assert await worker.pages(pg_dsn, worker.floor) < MOST_PAGES
    for _ in range(50):  # and now it does not
        await store.jobs.enqueue([large] * 10)
        clock.advance(timedelta(milliseconds=100))
    clock.advance(MINUTE / 4)
    for _ in range(40):
        assert await worker.claim(limit=10) == 10
    assert await worker.pages(pg_dsn, worker.floor) < MOST_PAGES


MOST_PAGES = 200


class Searcher:
    """A worker that claims from where its last claim ended, and finishes all at once."""

    def __init__(self, store: SqlStore, clock: VirtualClock, worker: int) -> None:
        self._store = store
        self._place = QueueShelf("default", NORMAL)
        self._floors = ClaimFloors(lambda: clock().timestamp())
        self._request = ClaimRequest(worker=worker, queue="default", tasks=["work"], limit=10)
        self._clock = clock

    @property
    def floor(self) -> int:
        return self._floors.of(self._place)

    async def claim(self, *, limit: int) -> int:
        request = replace(self._request, floor=self.floor, limit=limit)
        jobs = (await self._store.work.finish_and_claim([], request)).jobs
        self._floors.note(jobs, request, self._place, sent=self._clock().timestamp())
        await self._store.work.finish_and_claim([JobDone(job.id, job.fence) for job in jobs])
        return len(jobs)

    async def pages(self, dsn: str, floor: int) -> int:
        """Return how many pages a claim reads that begins at the floor. It is undone."""
        ask = finish_and_claim.ask([], replace(self._request, floor=floor))
        text = for_psycopg(statements(self._store.database.dialect)[ask.statement])
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            values = {"now": to_us(self._clock()), **ask.values}
            explain = b"explain (analyze, buffers, format json) "
            [[[explained]]] = await (await connection.execute(explain + text, values)).fetchall()
            await connection.rollback()
        plan_ = explained["Plan"]
        return int(plan_["Shared Hit Blocks"] + plan_["Shared Read Blocks"])


async def test_jobs_are_settled_beside_one_whose_key_somebody_asks_for(
    store: SqlStore, caller: psycopg.AsyncConnection
) -> None:
    await store.jobs.enqueue([JobRequest(task="work", key="k"), *[JobRequest(task="work")] * 9])
    worker = await store.work.register(profile("w"), lease=MINUTE)
    request = ClaimRequest(worker=worker.id, queue="default", tasks=["work"], limit=10)
    jobs = (await store.work.claim(request)).jobs
    await aenqueue_on(caller, [JobRequest(task="work", key="k")])
    async with Timeout(30):
        settled = await store.work.settle([done(job) for job in jobs])
    assert (len(settled.kept), settled.refused) == (10, [])
    await caller.commit()
    [left] = await store.jobs.page()
    assert (left.key, left.state) == ("k", State.READY)


async def test_events_are_reacted_to_beside_one_whose_key_somebody_asks_for(
    store: SqlStore, caller: psycopg.AsyncConnection
) -> None:
    await store.schedules.add([plan(rule='on doc.changed key="{doc}"'), plan("other", "on other")])
    await aenqueue_on(caller, [JobRequest(task="work", key="1", args=encode({"by": "hand"}))])
    for doc in (1, 2, 1, 3):
        await store.events.emit([Emitted(name="doc.changed", payload=encode({"doc": doc}))])
    await store.events.emit([Emitted(name="other")])
    async with Timeout(30):
        done = await store.events.react(limit=100)
    assert (done.events, done.jobs) == (3, 3)
    assert sorted(str(job.key) for job in await store.jobs.page()) == ["2", "3", "None"]
    with pytest.raises(Busy):
        await store.events.react(limit=100)
    await caller.rollback()
    assert (await store.events.react(limit=100)).events == 2
    outcomes = [str(fire.outcome) for fire in await store.ledger.fires("report")]
    assert sorted(outcomes) == ["merged", "queued", "queued", "queued"]


async def test_events_are_reacted_to_beside_those_of_a_schedule_that_somebody_changes(
    store: SqlStore, caller: psycopg.AsyncConnection
) -> None:
    await store.schedules.add(
        [plan(rule="on doc.changed"), plan("other", "on other", task="another")]
    )
    await caller.execute("select from duly.schedule where name = 'report' for update")
    await store.events.emit([Emitted(name="doc.changed")] * 20 + [Emitted(name="other")])
    async with Timeout(30):
        done = await store.events.react(limit=10)
    assert (done.events, done.jobs) == (1, 1), "what comes behind a whole batch of it, too"
    await caller.rollback()
    assert [(await store.events.react(limit=10)).jobs for _ in range(3)] == [10, 10, 0]


async def test_what_flows_wait_for_is_found_beside_a_key_that_somebody_asks_for(
    store: SqlStore, clock: VirtualClock, caller: psycopg.AsyncConnection
) -> None:
    world = World(store, clock)
    await store.schedules.add([plan(rule='on doc.changed key="{doc}"')])
    awaited = Awaited("go", None, None)
    step = StepPlan(name="wait", call=JobRequest(task="wait"), awaited=awaited)
    flow = await world.enqueue(JobRequest(task="work"))
    await world.end(await world.begin(), Opened(FlowPlan(steps=(step,))))
    await aenqueue_on(caller, [JobRequest(task="work", key="1")])
    await store.events.emit([Emitted(name="go")])
    await store.events.react(limit=100)
    await store.events.emit([Emitted(name="doc.changed", payload=encode({"doc": 1}))])
    with pytest.raises(Busy):
        await Reactor(store).tick()
    assert (await world.job(flow)).state is State.SUCCEEDED


def done(job: Claimed) -> Settlement:
    verdict = Verdict(move=Move.SUCCEED, reason="done", crashes=0)
    return Settlement(job=job, verdict=verdict, outcome="succeeded")
