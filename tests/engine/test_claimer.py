"""Claiming and writing: nothing is lost, nothing is done twice, and nobody is asked too often."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly.clock import boottime, sleep
from duly.engine.claim_planner import BATCH, ClaimPlanner
from duly.engine.claimer import Claimer
from duly.engine.loop import EVERYBODY
from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.events import SettlementFailed, WriteRefused
from duly.instants import to_us
from duly.model.job import Claimed, JobRequest
from duly.model.job_filter import Filter
from duly.model.limit import Queue
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.store.ledger import FiringResult
from duly.store.store import Store
from duly.store.values import NO_FLOOR, NORMAL, QUEUES, ClaimRequest, JobDone, Offer, Settlement
from tests.engine.workshop import (
    LONG_LEASE,
    Bench,
    Fault,
    Line,
    at_work,
    memory_store,
    raising,
    until,
)
from tests.factories import call, plan, profile

NO_REST = timedelta(0)


async def five() -> int:
    return 5


async def nothing() -> None:
    pass


async def fail() -> None:
    raise ValueError("oh")


class Counter:
    """A planner, its runner, its two claimers, and the line to their store."""

    def __init__(self, store: Store, *tasks: Any, **changes: Any) -> None:
        self.line = Line(store)
        self.queues = changes.pop("queues", ("default",))
        self.bench = Bench(self.line.store, *tasks, **changes)
        self.runner = self.bench.runner
        self.planner = ClaimPlanner(
            self.line.store, self.runner, queues=self.queues, tasks=self.bench.registry.names()
        )
        self.planner.journal = self.bench.journal
        emit = self.bench.events.append
        self.first = Claimer(self.planner, emit=emit)
        self.second = Claimer(self.planner, first=False, emit=emit, enough=lambda: True)

    async def open(self) -> "Counter":
        asked = profile("tester", tasks=self.bench.registry.names(), queues=self.queues)
        info = await self.line.store.work.register(asked, lease=LONG_LEASE)
        self.line.store.listen(self.planner.hear)
        self.planner.enlisted(info.id)
        self.line.calls.clear()
        return self

    async def enqueue(self, *tasks: str, **changes: Any) -> list[int]:
        return await self.line.store.jobs.enqueue([call(task, **changes) for task in tasks])

    async def tick(self, times: int = 1) -> timedelta:
        rest = NO_REST
        for _ in range(times):
            rest = await self.first.tick()
        return rest

    async def work(self) -> None:
        """Until nothing is left to do."""
        while True:
            rest = await self.tick()
            await until(lambda: not self.runner.running)
            if rest and self.planner.is_idle:
                return

    async def poll_until_done(self, number: int) -> None:
        for _ in range(10):
            await self.work()
            self.bench.now += 0.4
            if await self.states([number]) == {State.SUCCEEDED}:
                return
        raise AssertionError(f"job {number} was not claimed")

    async def states(self, numbers: list[int]) -> set[State]:
        return {(await self.line.store.jobs.get(number)).state for number in numbers}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


async def test_a_nudge_is_answered_by_the_next_tick(store: Store) -> None:
    counter = await Counter(store, five).open()
    while not await counter.tick():
        pass  # until it would rest
    [number] = await counter.enqueue("five")
    await counter.tick()
    await until(lambda: len(counter.runner.outbox.done) == 1)
    await counter.tick()
    job = await store.jobs.get(number)
    assert (job.state, job.result) == (State.SUCCEEDED, "5")


async def test_after_a_long_rest_too_a_nudged_job_starts_after_one_statement(store: Store) -> None:
    counter = await Counter(store, five).open()
    await counter.enqueue("five")
    await counter.work()
    counter.bench.now += 60
    await counter.work()  # a poll
    counter.bench.now += 2
    [number] = await counter.enqueue("five")
    counter.line.calls.clear()
    before: list[dict[str, int]] = []
    take = counter.runner.take

    def started(jobs: Iterable[Claimed]) -> None:
        before.append(dict(counter.line.calls))
        take(jobs)

    counter.runner.take = started  # type: ignore[method-assign]
    await counter.tick()
    assert before == [{"work.finish_and_claim": 1}]
    await counter.work()
    assert await counter.states([number]) == {State.SUCCEEDED}


@pytest.mark.parametrize("priority", [-50, -100])
async def test_so_is_a_nudge_for_low_and_idle_work(store: Store, priority: int) -> None:
    counter = await Counter(store, five).open()
    await counter.work()
    await counter.enqueue("five", priority=priority)
    while not await counter.tick():
        pass
    await until(lambda: counter.runner.outbox.attempts == 1)


@pytest.mark.parametrize("verb", ["finish_and_claim", "ready"])
async def test_a_nudge_that_comes_while_it_looks_is_not_forgotten(store: Store, verb: str) -> None:
    counter = await Counter(store, nothing).open()
    await counter.work()

    async def late(real: Fault, *args: object) -> object:
        answer = await real(*args)
        counter.line.faults.clear()
        await counter.enqueue("nothing")  # committed, and told, before the answer is here
        return answer

    counter.line.faults[f"work.{verb}"] = late
    counter.planner.hear("ready:default")
    await counter.tick(4)
    await until(lambda: counter.runner.outbox.attempts == 1)


async def test_who_was_told_nothing_does_not_look_again_at_once(store: Store) -> None:
    counter = await Counter(store, nothing).open()
    await counter.work()
    counter.line.calls.clear()
    await counter.tick(5)
    assert counter.line.calls == {}
    counter.bench.now += 0.5
    await counter.tick(5)
    assert counter.line.calls == {"work.ready": 1}


async def test_there_is_no_rest_while_more_is_known(store: Store) -> None:
    counter = await Counter(store, nothing, queues=("a", "b"), slots=1).open()
    await counter.enqueue("nothing", queue="a")
    await counter.enqueue("nothing", queue="b")
    assert await counter.tick() == NO_REST


async def test_what_ends_while_something_is_written_is_written_at_once(store: Store) -> None:
    counter = await Counter(store, fail).open()
    first, second = await counter.enqueue("fail", "fail")
    request = ClaimRequest(
        worker=counter.planner.worker or 0, queue="default", tasks=["fail"], limit=2
    )
    jobs = (await counter.bench.store.work.claim(request)).jobs
    counter.runner.take(jobs[:1])
    await until(lambda: len(counter.runner.outbox.settlements) == 1)

    async def meanwhile(real: Fault, *args: object) -> object:
        counter.line.faults.clear()
        counter.runner.take(jobs[1:])
        await until(lambda: len(counter.runner.outbox.settlements) == 1)
        return await real(*args)

    counter.line.faults["work.settle"] = meanwhile
    assert await counter.tick() == NO_REST
    await counter.tick()
    assert await counter.states([first, second]) == {State.SCHEDULED}


async def test_a_flood_is_claimed_and_finished_by_the_batch(store: Store) -> None:
    counter = await Counter(store, nothing, slots=100).open()
    numbers = await counter.enqueue(*["nothing"] * 1_000)
    await counter.work()
    assert await counter.states(numbers) == {State.SUCCEEDED}
    assert counter.line.calls["work.finish_and_claim"] < 30


async def test_low_work_is_done_during_a_flood(store: Store) -> None:
    counter = await Counter(store, nothing, slots=10).open()
    await counter.enqueue(*["nothing"] * 30)
    await counter.tick()
    [low] = await counter.enqueue("nothing", priority=-50)
    for _ in range(40):
        await counter.enqueue(*["nothing"] * 10)
        counter.bench.now += 0.1
        await counter.tick()
        await until(lambda: not counter.runner.running)
    assert await counter.states([low]) == {State.SUCCEEDED}


async def test_a_moment_of_a_schedule_does_not_wait_behind_a_flood(store: Store) -> None:
    ran: list[str] = []

    async def flood() -> None:
        ran.append("flood")

    async def moment() -> None:
        ran.append("moment")

    counter = await Counter(store, flood, moment, slots=10).open()
    await counter.enqueue(*["flood"] * 4_000)
    await counter.tick()
    await store.schedules.add([plan(task="moment")])
    await store.schedules.run("report")
    await counter.work()
    assert len(ran) == 4_001
    assert ran.index("moment") < 3_000  # what was claimed before it, and a batch or two


async def test_a_worker_finds_its_jobs_among_a_crowd_of_others(store: Store) -> None:
    counter = await Counter(store, nothing, five, slots=10).open()
    await counter.enqueue(*["stranger"] * 500, priority=50)
    mine = await counter.enqueue("five", "nothing", "five")
    await counter.work()
    assert await counter.states(mine) == {State.SUCCEEDED}
    asked = [await counter.planner.next_claim(5) for _ in range(16)]
    assert [found for found in asked if found] == []  # what is left is for others


async def test_two_claimers_do_every_job_once(store: Store) -> None:
    ran: list[int] = []

    async def count(number: int) -> None:
        ran.append(number)
        await sleep(0)

    counter = await Counter(store, count, slots=100).open()
    calls = [JobRequest(task="count", args=f'{{"number":{number}}}') for number in range(1_000)]  # type: ignore[arg-type]
    numbers = await store.jobs.enqueue(calls)
    while len(ran) < 1_000 or not counter.planner.is_idle:
        await asyncio.gather(counter.first.tick(), counter.second.tick())
    assert sorted(ran) == list(range(1_000))
    assert await counter.states(numbers) == {State.SUCCEEDED}
    assert counter.bench.heard(WriteRefused) == []


async def test_only_one_of_two_claimers_asks_for_what_needs_care(store: Store) -> None:
    counter = await Counter(store, nothing, resources={"gpu": 1}).open()
    await counter.enqueue("nothing", needs={"gpu": 1})
    await counter.enqueue("nothing", needs={"gpu": 1})
    counter.planner.nudged = True
    asked = [await counter.planner.next_claim(5, plain=True) for _ in range(16)]
    assert {found[1].shelf for found in asked if found} <= {0}
    counter.planner.rotation.seen(await store.work.ready(["default"], ["nothing"]))
    assert await counter.planner.next_claim(5, plain=True) is None
    assert await counter.planner.next_claim(5) is not None


# When the store is away.


@pytest.mark.parametrize("call_", ["work.finish_and_claim", "work.queues", "work.ready"])
async def test_what_is_done_is_kept_until_it_is_written(store: Store, call_: str) -> None:
    counter = await Counter(store, five).open()
    numbers = await counter.enqueue("five", "five")
    await counter.tick()
    await until(lambda: len(counter.runner.outbox.done) == 2)
    counter.line.faults[call_] = raising(StoreUnavailable)
    counter.planner.hear(QUEUES)
    counter.planner.hear("ready:default")
    counter.bench.now += 100
    with pytest.raises(StoreUnavailable):
        await counter.tick()
    assert len(counter.runner.outbox.done) == 2
    counter.line.faults.clear()
    await counter.work()
    assert await counter.states(numbers) == {State.SUCCEEDED}


@pytest.mark.parametrize("error", [StoreUnavailable, OutcomeUnknown])
async def test_what_did_not_succeed_is_kept_until_it_is_written(
    store: Store, error: type[Exception]
) -> None:
    counter = await Counter(store, fail).open()
    numbers = await counter.enqueue("fail", "fail")
    await counter.tick()
    await until(lambda: len(counter.runner.outbox.settlements) == 2)
    counter.line.faults["work.settle"] = raising(error)
    with pytest.raises(error):
        await counter.tick()
    counter.line.faults.clear()
    await counter.work()
    assert await counter.states(numbers) == {State.SCHEDULED}


async def test_a_tick_that_is_cut_off_leaves_everything_to_the_next(store: Store) -> None:
    counter = await Counter(store, five, fail).open()
    numbers = await counter.enqueue("five", "fail")
    await counter.tick()
    await until(lambda: not counter.runner.running)

    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    for verb in ("work.settle", "work.finish_and_claim"):
        counter.line.faults = {verb: hang}
        tick = asyncio.create_task(counter.first.tick())
        await until(lambda verb=verb: counter.line.calls[verb] > 0)  # type: ignore[misc]
        await sleep(0)
        tick.cancel()
        await asyncio.gather(tick, return_exceptions=True)
    assert counter.planner.busy == 0
    counter.line.faults.clear()
    await counter.work()
    assert await counter.states(numbers) == {State.SUCCEEDED, State.SCHEDULED}


async def test_jobs_whose_claim_was_never_answered_are_run_once(store: Store) -> None:
    ran: list[int] = []

    async def count(number: int) -> None:
        ran.append(number)

    counter = await Counter(store, count).open()

    async def deaf(real: Fault, *args: object) -> object:
        await real(*args)
        raise OutcomeUnknown("the answer was lost")

    calls = [JobRequest(task="count", args=f'{{"number":{number}}}') for number in range(5)]  # type: ignore[arg-type]
    numbers = await store.jobs.enqueue(calls)
    counter.line.faults["work.finish_and_claim"] = deaf
    with pytest.raises(OutcomeUnknown):
        await counter.tick()
    counter.line.faults = {
        "work.claimed_by": raising(StoreUnavailable)
    }  # as connections do when lost
    with pytest.raises(StoreUnavailable):
        await counter.tick()
    counter.line.faults.clear()
    await counter.work()
    assert sorted(ran) == [0, 1, 2, 3, 4]
    assert await counter.states(numbers) == {State.SUCCEEDED}


async def test_what_the_other_claimer_has_under_way_is_not_run_again(store: Store) -> None:
    ran: list[int] = []

    async def count(number: int) -> None:
        ran.append(number)

    counter = await Counter(store, count, slots=2 * BATCH).open()  # enough for both to ask
    calls = [JobRequest(task="count", args=f'{{"number":{number}}}') for number in range(6)]  # type: ignore[arg-type]
    numbers = await store.jobs.enqueue(calls[:3])
    await counter.tick()
    await until(lambda: len(counter.runner.outbox.done) == 3)
    numbers += await store.jobs.enqueue(calls[3:])
    answered = asyncio.Event()

    async def slow(real: Fault, done: Sequence[JobDone], request: ClaimRequest | None) -> object:
        counter.line.faults["work.finish_and_claim"] = deaf
        await answered.wait()
        return await real(done, request)

    async def deaf(real: Fault, *args: object) -> object:
        counter.line.faults.clear()
        await real(*args)
        raise OutcomeUnknown("the answer was lost")

    counter.line.faults["work.finish_and_claim"] = slow
    slowly = asyncio.create_task(counter.second.tick())  # with the three that are done
    await until(lambda: counter.planner.busy == 1 and not counter.runner.outbox.done)
    with pytest.raises(OutcomeUnknown):
        await counter.tick()
    for _ in range(3):
        await counter.tick()
    assert len(ran) <= 6
    answered.set()
    await slowly
    await counter.work()
    assert sorted(ran) == [0, 1, 2, 3, 4, 5]
    assert await counter.states(numbers) == {State.SUCCEEDED}
    assert counter.bench.heard(WriteRefused) == []


async def test_what_comes_to_a_worker_that_lost_its_lease_meanwhile_is_given_back(
    store: Store,
) -> None:
    counter = await Counter(store, five).open()
    numbers = await counter.enqueue("five")

    async def fenced_meanwhile(real: Fault, *args: object) -> object:
        turn = await real(*args)
        counter.planner.worker = None
        return turn

    counter.line.faults["work.finish_and_claim"] = fenced_meanwhile
    await counter.tick()
    assert not counter.runner.running
    await counter.tick()
    assert counter.runner.outbox.attempts == 0
    assert await counter.states(numbers) == {State.READY}


async def test_a_write_on_a_job_that_somebody_else_has_is_refused_and_told(store: Store) -> None:
    counter = await Counter(store, five, fail).open()
    await counter.enqueue("five", "fail")
    await counter.tick()
    await until(lambda: not counter.runner.running)
    runner = counter.runner
    runner.outbox.done[0] = JobDone(runner.outbox.done[0].id, 4711)
    [settled] = runner.outbox.settlements
    assert isinstance(settled.job, Claimed)
    runner.outbox.settlements = [
        replace(settled, job=msgspec.structs.replace(settled.job, fence=4711))
    ]
    await counter.tick()
    assert [event.fence for event in counter.bench.heard(WriteRefused)] == [4711, 4711]


# What cannot be stored.


async def test_one_end_that_cannot_be_stored_does_not_keep_others_from_theirs(store: Store) -> None:
    counter = await Counter(store, five).open()
    numbers = await counter.enqueue(*["five"] * 6, terms=Terms(on_success=Callback(task="none")))
    await counter.tick()
    await until(lambda: len(counter.runner.outbox.settlements) == 6)

    async def picky(real: Fault, batch: Sequence[Settlement]) -> object:
        if any(one.job.id == numbers[2] and one.result for one in batch):
            raise ValueError("no such character")
        return await real(batch)

    counter.line.faults["work.settle"] = picky
    await counter.tick()
    assert await counter.states(numbers) == {State.SUCCEEDED}
    assert [event.job for event in counter.bench.heard(SettlementFailed)] == [numbers[2]]
    assert [(await store.jobs.get(number)).result for number in numbers[1:4]] == ["5", None, "5"]


async def test_nor_does_a_plain_result(store: Store) -> None:
    counter = await Counter(store, five).open()
    numbers = await counter.enqueue(*["five"] * 6)
    await counter.tick()
    await until(lambda: len(counter.runner.outbox.done) == 6)

    async def picky(
        real: Fault, done: Sequence[JobDone], request: ClaimRequest | None = None
    ) -> object:
        if any(one.id == numbers[2] and one.result for one in done):
            raise ValueError("no such character")
        return await real(done, request)

    counter.line.faults["work.finish_and_claim"] = picky
    await counter.work()
    assert await counter.states(numbers) == {State.SUCCEEDED}
    assert [event.job for event in counter.bench.heard(SettlementFailed)] == [numbers[2]]


async def test_what_can_never_be_stored_is_let_go(store: Store) -> None:
    counter = await Counter(store, fail).open()
    numbers = await counter.enqueue("fail", "fail", "fail")
    await counter.tick()
    await until(lambda: len(counter.runner.outbox.settlements) == 3)

    async def picky(real: Fault, batch: Sequence[Settlement]) -> object:
        if any(one.job.id == numbers[0] for one in batch):
            raise ValueError("never")
        return await real(batch)

    counter.line.faults["work.settle"] = picky
    await counter.work()
    assert await counter.states(numbers[1:]) == {State.SCHEDULED}
    assert len(counter.bench.heard(SettlementFailed)) == 2


async def test_a_store_that_goes_away_in_the_middle_of_that_loses_nothing(store: Store) -> None:
    counter = await Counter(store, fail).open()
    numbers = await counter.enqueue("fail", "fail", "fail")
    await counter.tick()
    await until(lambda: len(counter.runner.outbox.settlements) == 3)

    async def worse_and_worse(real: Fault, batch: Sequence[Settlement]) -> object:
        if len(batch) > 1 or batch[0].verdict.error is None:
            raise ValueError("no such character")
        if batch[0].job.id == numbers[1]:
            raise StoreUnavailable("gone")
        return await real(batch)

    counter.line.faults["work.settle"] = worse_and_worse
    with pytest.raises(StoreUnavailable):
        await counter.tick()
    assert len(counter.runner.outbox.settlements) == 2
    counter.line.faults.clear()
    await counter.work()
    assert await counter.states(numbers) == {State.SCHEDULED}


# How often the store is asked.


async def calls_in_a_second(line: Line) -> int:
    await sleep(0.3)  # what there is to find out has been found out
    line.calls.clear()
    await sleep(1)
    return sum(
        line.calls[f"work.{verb}"] for verb in ("finish_and_claim", "claim", "ready", "queues")
    )


async def test_a_worker_that_has_nothing_to_do_asks_now_and_then(store: Store) -> None:
    line = Line(store)
    async with at_work(line.store, nothing):
        assert 1 <= await calls_in_a_second(line) <= 8


async def test_what_cannot_be_claimed_here_is_not_asked_for_all_the_time(store: Store) -> None:
    await store.jobs.enqueue(
        [call("stranger", queue="unknown", priority=p) for p in (0, -50, -100)]
    )
    await store.work.set_queue(Queue(name="paused", paused=True))
    await store.jobs.enqueue([call("nothing", queue="paused")])
    await store.jobs.enqueue([call("nothing", queue="needs", needs={"gpu": 1})])
    await store.work.set_queue(Queue(name="full", concurrency=1))
    await store.jobs.enqueue([call("nothing", queue="full"), call("nothing", queue="full")])
    other = await store.work.register(profile(tasks=("nothing",)), lease=LONG_LEASE)
    request = ClaimRequest(worker=other.id, queue="full", tasks=["nothing"], limit=1)
    assert len((await store.work.claim(request)).jobs) == 1
    queues = ("unknown", "paused", "needs", "full")
    assert len(await store.work.ready(queues, ["nothing", "stranger"])) == 6
    line = Line(store)
    async with at_work(line.store, nothing, concurrency=100, queues=queues) as working:
        assert await calls_in_a_second(line) <= 40
        assert working.worker.runner.outbox.attempts == 0


async def test_where_nobody_says_what_has_changed_a_look_is_enough(store: Store) -> None:
    counter = await Counter(store, nothing).open()
    await counter.work()
    counter.line.calls.clear()
    counter.planner.hear(EVERYBODY)
    await counter.tick()
    assert counter.line.calls == {"work.ready": 1}


async def test_a_queue_that_is_not_plain_any_more_is_found_out(store: Store) -> None:
    counter = await Counter(store, nothing).open()
    await counter.work()
    [number] = await counter.enqueue("nothing", tenant="somebody")
    await store.work.set_queue(Queue(name="default", fair=True))
    counter.planner._settings_at = counter.bench.now  # as if nobody had said so
    await counter.work()
    counter.bench.now += 0.5
    await counter.work()
    counter.bench.now += 0.5
    await counter.work()
    assert await counter.states([number]) == {State.SUCCEEDED}


async def test_a_queue_with_limits_of_its_own_is_as_fast_as_they_allow(store: Store) -> None:
    await store.work.set_queue(Queue(name="default", concurrency=1))
    began = boottime()
    async with at_work(store, nothing) as working:
        numbers = await working.enqueue("nothing", times=40)
        for number in numbers:
            await working.ended(number)
    assert boottime() - began < 8  # at the poll's pace it would take twenty seconds


async def test_a_run_for_whose_end_others_wait_since_an_edit_is_settled(store: Store) -> None:
    counter = await Counter(store, five).open()
    await store.schedules.add([plan(task="five", overlap="allow")])
    await store.schedules.run("report")
    await counter.tick()
    await until(lambda: len(counter.runner.outbox.done) == 1)
    [number] = [one.id for one in counter.runner.outbox.done]
    await store.schedules.edit(
        "report", lambda old: replace(old, policies=replace(old.policies, overlap="queue_all"))
    )
    await counter.tick()
    assert [one.job.id for one in counter.runner.outbox.settlements] == [number]
    assert await counter.tick() > NO_REST
    assert await counter.states([number]) == {State.SUCCEEDED}
    assert not counter.runner.outbox


class Searches:
    """The floors of the claims, in order; a search without a floor takes ``seconds``."""

    def __init__(self, counter: Counter, *, seconds: float = 0.0) -> None:
        self.floors: list[int] = []
        self._counter = counter
        self._seconds = seconds
        counter.line.faults["work.finish_and_claim"] = self._claim

    async def _claim(
        self, real: Fault, done: Sequence[JobDone], request: ClaimRequest | None = None
    ) -> object:
        if request is not None:
            self.floors.append(request.floor)
            if request.floor == NO_FLOOR:
                self._counter.bench.now += self._seconds
        return await real(done, request)


async def test_a_worker_that_keeps_up_searches_only_above_what_it_has_claimed(store: Store) -> None:
    counter = await Counter(store, five).open()
    searches = Searches(counter)
    for _ in range(100):
        await counter.enqueue("five")
        await counter.work()
        counter.bench.now += 0.05
    without = searches.floors.count(NO_FLOOR)
    assert without == 5, "once a second"
    last, before = await store.jobs.ended(State.SUCCEEDED, limit=2)
    assert to_us(before.ready_at) - 500_000 <= searches.floors[-1] < to_us(last.ready_at)


async def test_a_job_that_is_ready_below_the_floor_is_claimed_at_once(store: Store) -> None:
    counter = await Counter(store, five).open()
    searches = Searches(counter)
    await counter.enqueue("five")
    await counter.work()
    assert searches.floors == [NO_FLOOR]
    [number] = await counter.enqueue("five", priority=100)
    await counter.work()
    assert await counter.states([number]) == {State.SUCCEEDED}
    [floored, again] = searches.floors[1:]
    assert floored > again == NO_FLOOR
    await counter.enqueue("five", priority=100)
    await counter.work()
    assert len(searches.floors) == 4, "this priority is known by now"


async def test_searches_without_a_floor_take_at_most_a_twentieth_of_the_time(store: Store) -> None:
    counter = await Counter(store, five).open()
    searches = Searches(counter, seconds=0.1)
    await counter.enqueue("five")
    await counter.work()
    [number] = await counter.enqueue("five", priority=100)
    began = counter.bench.now
    await counter.poll_until_done(number)
    assert 19 * 0.1 <= counter.bench.now - began < 19 * 0.1 + 1.5
    assert searches.floors.count(NO_FLOOR) == 2


async def test_an_expensive_look_at_the_shelves_is_not_repeated_soon(store: Store) -> None:
    counter = await Counter(store, five).open()

    async def slow(real: Fault, *given: object) -> object:
        counter.bench.now += 0.1
        return await real(*given)

    counter.line.faults["work.ready"] = slow
    for _ in range(100):
        await counter.enqueue("five")
        await counter.work()
        counter.bench.now += 0.05
    assert counter.line.calls["work.ready"] <= 6
    [low] = await counter.enqueue("five", priority=-50)
    await counter.poll_until_done(low)


async def test_a_job_that_is_being_claimed_with_its_fire_is_not_taken_for_a_lost_one(
    store: Store,
) -> None:
    counter = await Counter(store, five, slots=1).open()
    await counter.work()
    counter.line.calls.clear()

    async def fire(offer: Offer | None) -> FiringResult:
        assert offer is not None
        counter.planner.lost_answer = True  # to another claim
        await counter.tick()
        assert counter.line.calls["work.claimed_by"] == 0
        counter.planner.lost_answer = False
        await counter.enqueue("five")
        await counter.tick()
        assert counter.line.calls["work.finish_and_claim"] == 0  # the only slot is taken
        return FiringResult()

    await counter.planner.run_fired(fire)
    assert counter.planner.busy == counter.planner.claiming == 0


async def test_a_claimer_that_found_the_only_slot_taken_by_a_fire_is_called_again(
    store: Store,
) -> None:
    counter = await Counter(store, five, slots=1).open()
    await counter.work()

    async def fire(_: Offer | None) -> FiringResult:
        await counter.enqueue("five")
        await counter.tick()
        return FiringResult()

    before = counter.bench.woken
    await counter.planner.run_fired(fire)
    assert counter.bench.woken == before + 1


async def test_a_job_claimed_with_its_fire_is_looked_for_if_the_settled_times_cannot_be_fired(
    store: Store,
) -> None:
    counter = await Counter(store, five, slots=1).open()
    await counter.work()

    async def fire(offer: Offer | None) -> FiringResult:
        # Two transactions: the first one claims, and the second one fails.
        assert offer is not None
        request = offer(plan(task="five"))
        assert request is not None
        await counter.enqueue("five")
        await store.work.claim(replace(request, shelf=NORMAL))
        raise StoreUnavailable("the test says so")

    with pytest.raises(StoreUnavailable):
        await counter.planner.run_fired(fire)
    await counter.work()
    assert [job.state for job in (await store.jobs.find(Filter())).jobs] == [State.SUCCEEDED]


async def test_a_claim_that_took_half_a_minute_does_not_hide_urgent_jobs_for_ten_minutes(
    store: Store,
) -> None:
    counter = await Counter(store, five).open()

    async def slow(real: Fault, *given: object) -> object:
        counter.bench.now += 30
        return await real(*given)

    counter.line.faults["work.finish_and_claim"] = slow
    await counter.enqueue("five")
    await counter.tick()
    counter.line.faults.clear()
    await counter.work()
    [urgent] = await counter.enqueue("five", priority=50)
    for _ in range(28):  # eleven seconds
        await counter.work()
        counter.bench.now += 0.4
    assert await counter.states([urgent]) == {State.SUCCEEDED}
