"""A worker as a whole: it runs what is asked, hears what it is told, and ends as it should."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from duly.app import connect, migrate_store
from duly.clock import boottime, now, sleep
from duly.engine import worker as worker_module
from duly.engine.executors.in_process import CoroutineExecutor
from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.events import (
    FencingFailed,
    JobStarted,
    JobStuck,
    TimeoutIgnored,
    WorkerFenced,
    WorkerRegistered,
    WriteRefused,
)
from duly.model.states import State
from duly.policy.retry import Retry
from duly.registry.context import Context, current
from duly.registry.definition import define
from duly.store.ledger import FiringResult
from duly.store.store import Store
from duly.store.values import ClaimRequest, JobDone, Offer
from tests.engine.workshop import (
    LONG_LEASE,
    PAUSE,
    Fault,
    Line,
    at_work,
    known,
    memory_store,
    opened,
    raising,
    until,
    until_cancelled,
)
from tests.factories import plan, profile

SHORT = timedelta(seconds=2)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


@pytest.fixture
async def url(tmp_path: Path) -> str:
    await migrate_store(str(tmp_path / "duly.db"))
    return str(tmp_path / "duly.db")


def heart_of(url: str) -> Callable[[], Awaitable[Store]]:
    async def heart() -> Store:
        store = connect(url, create=False)
        await store.open()
        return store

    return heart


async def five() -> int:
    return 5


async def nothing() -> None:
    pass


async def forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("oh")


# What it does.


async def test_a_life_in_memory(store: Store) -> None:
    await check_a_life(store, None)


async def test_a_life_with_a_file(url: str) -> None:
    async with opened(url) as store:
        await check_a_life(store, heart_of(url))


async def test_a_life_with_postgresql(pg_dsn: str) -> None:
    await migrate_store(pg_dsn)
    async with opened(pg_dsn) as store:
        await check_a_life(store, heart_of(pg_dsn))


async def test_two_workers_on_postgresql_share_a_flood(pg_dsn: str) -> None:
    ran: list[int] = []

    async def count(number: int) -> None:
        ran.append(number)
        await sleep(0.001)

    await migrate_store(pg_dsn)
    async with opened(pg_dsn) as one, opened(pg_dsn) as two:
        registry = known(count)
        asked = [registry.call(registry.get("count"), (), {"number": n}) for n in range(600)]
        async with (
            at_work(one, count, concurrency=5) as first,
            at_work(two, count, concurrency=5) as second,
        ):
            numbers = await one.jobs.enqueue(asked)
            await until(lambda: len(ran) == 600)
            await first.leave()
            await second.leave()
            assert (
                min(first.worker.runner.outbox.attempts, second.worker.runner.outbox.attempts) > 50
            )
        assert {(await one.jobs.get(number)).state for number in numbers} == {State.SUCCEEDED}
    assert sorted(ran) == list(range(600))


async def check_a_life(store: Store, heart: Callable[[], Awaitable[Store]] | None) -> None:
    async def say() -> str:
        current().log.info("said")
        return "done"

    def shout(context: Context) -> str:
        context.log.info("shouted")
        context.progress(50, "half")
        return "DONE"

    tasks = (say, forever, define(fail, retry=None), define(shout, takes_context=True))
    async with at_work(store, *tasks, heart=heart) as working:
        numbers = await working.enqueue("say", times=20)
        [shouted] = await working.enqueue("shout", key="once")
        [failed] = await working.enqueue("fail")
        [cancelled] = await working.enqueue("forever")
        results = {(await working.ended(number)).result for number in numbers}
        assert results == {'"done"'}
        assert (await working.ended(shouted)).result == '"DONE"'
        job = await working.ended(failed)
        assert (job.state, job.error and "ValueError: oh" in job.error) == (State.FAILED, True)
        await until(lambda: cancelled in working.worker.running())
        await store.jobs.cancel(cancelled, reason="enough")
        assert (await working.ended(cancelled)).state is State.CANCELLED
        lines = [await store.journal.logs(number) for number in (*numbers, shouted)]
        assert [len(found) for found in lines] == [1] * 21
        await working.leave()
    assert await store.work.living() == []
    progress = await store.maintenance.progress()
    assert (progress.ready, progress.running) == (0, 0)


async def test_a_job_that_was_stopped_did_not_hold_the_interpreter(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_work(store, nothing, forever) as working:
        began = boottime()
        monkeypatch.setattr(working.worker.runner, "time", lambda: began)  # they end just now
        [waited] = await working.enqueue("forever")
        await until(lambda: waited in working.worker.running())
        await store.jobs.cancel(waited, reason="enough")
        await working.ended(waited)
        assert working.worker.jobs_of(threading.get_native_id()) == [(waited, "forever")]
        [held] = await working.enqueue("nothing")
        await working.ended(held)
        assert working.worker.jobs_of(threading.get_native_id()) == [(held, "nothing")]
        await working.leave()


async def test_a_job_starts_long_before_anybody_would_have_looked(store: Store) -> None:
    async with at_work(store, nothing) as working:
        waits = []
        for priority in (0, 0, 0, -50, -100):
            [number] = await working.enqueue("nothing", priority=priority)
            begun = boottime()
            await until(lambda number=number: bool(working.ends(number)))  # type: ignore[misc]
            waits.append(boottime() - begun)
        assert sorted(waits)[2] < 0.2


async def test_long_jobs_are_not_hoarded(store: Store) -> None:
    async def long() -> None:
        await sleep(0.25)

    async with at_work(store, long, concurrency=2) as working:
        numbers = await working.enqueue("long", times=6)
        most = 0
        while len(working.heard(JobStarted)) < 6:
            held = await store.work.claimed_by(working.number)
            most = max(most, len(held))
            await sleep(0.01)
        assert most <= 3
        for number in numbers:
            await working.ended(number)


async def test_a_flood_of_small_jobs_is_claimed_by_the_batch(store: Store) -> None:
    line = Line(store)
    async with at_work(line.store, nothing, concurrency=10) as working:
        numbers = await working.enqueue("nothing", times=2_000)
        await until(lambda: working.worker.runner.outbox.attempts == 2_000)
        await working.leave()
    assert line.calls["work.finish_and_claim"] < 400
    assert (await store.jobs.get(numbers[-1])).state is State.SUCCEEDED


async def test_a_task_for_which_there_is_nothing_to_run_it_in_is_left_to_others(
    store: Store,
) -> None:
    registry = known(nothing, define(five, executor="process"))
    async with at_work(
        store, registry=registry, executors={"async": CoroutineExecutor()}
    ) as working:
        [left], [done] = await working.enqueue("five"), await working.enqueue("nothing")
        await working.ended(done)
        assert (await store.jobs.get(left)).state is State.READY
        [worker] = await store.work.living()
        assert worker.tasks == ("nothing",)


async def test_arguments_that_do_not_fit_wait_for_somebody_whom_they_fit(store: Store) -> None:
    async def greet(name: str) -> str:
        return name

    async def greet_twice(name: str, times: int) -> str:
        return name * times

    old = known(define(greet, name="greet"))
    new = known(define(greet_twice, name="greet"))
    async with at_work(store, registry=new) as working:
        call = old.call(old.get("greet"), (), {"name": "a"})
        [number] = await store.jobs.enqueue([call])
        parked = await working.became(number, State.BLOCKED)
        assert (parked.waits, parked.attempt) == ("signature", 0)
    async with at_work(store, registry=old) as working:
        assert (await working.ended(number)).result == '"a"'


async def test_a_job_that_crashed_with_a_worker_runs_when_the_one_before_it_has_ended(
    store: Store,
) -> None:
    here: list[int] = []
    together: list[int] = []

    async def suspicious() -> None:
        here.append(current().job.id)
        together.append(len(here))
        await sleep(0.02)
        here.remove(current().job.id)

    other = await store.work.register(profile(tasks=("suspicious",)), lease=LONG_LEASE)
    registry = known(suspicious)
    call = registry.call(registry.get("suspicious"), (), {})
    numbers = await store.jobs.enqueue([call] * 4)
    request = ClaimRequest(worker=other.id, queue="default", tasks=["suspicious"], limit=4)
    assert len((await store.work.claim(request)).jobs) == 4
    await store.work.end_lease(other.id)
    async with at_work(store, registry=registry) as working:
        for number in numbers:
            assert (await working.ended(number)).state is State.SUCCEEDED
    assert together == [1] * 4


# What it is told.


@pytest.mark.parametrize("way", ["coroutine", "thread"])
async def test_a_running_job_is_cancelled_within_a_second(store: Store, way: str) -> None:
    def polite() -> None:
        until_cancelled()

    async with at_work(store, define(forever if way == "coroutine" else polite, name="task")) as s:
        [number] = await s.enqueue("task")
        await until(lambda: s.worker.load() == 1)
        asked_at = boottime()
        assert await store.jobs.cancel(number, reason="enough") is State.RUNNING
        job = await s.ended(number)
        assert job.state is State.CANCELLED
        assert job.reason.startswith("cancelled while it ran")
        assert job.reason.endswith("enough")
        assert boottime() - asked_at < 1


async def test_a_job_that_waits_for_a_slot_is_cancelled_too(store: Store) -> None:
    async with at_work(store, forever, concurrency=2) as working:
        numbers = await working.enqueue("forever", times=2)
        await until(lambda: working.worker.load() == 2)
        working.worker.runner.slots = 1
        await store.jobs.cancel(numbers[1])
        assert (await working.ended(numbers[1])).state is State.CANCELLED


async def test_a_drained_worker_ends_what_it_runs_and_takes_nothing_new(store: Store) -> None:
    go = asyncio.Event()

    async def wait() -> None:
        await go.wait()

    async with at_work(store, wait, nothing) as working:
        [running] = await working.enqueue("wait")
        await until(lambda: working.worker.load() == 1)
        await store.work.tell(working.number, "drain")
        await until(lambda: not working.worker.runner.accepts)
        [later] = await working.enqueue("nothing")
        go.set()
        await working.ended(running)
        await sleep(0.1)
        assert (await store.jobs.get(later)).state is State.READY
        await store.work.tell(working.number, "run")
        assert (await working.ended(later)).state is State.SUCCEEDED


async def test_a_worker_is_scaled_while_it_works(store: Store) -> None:
    async with at_work(store, forever, concurrency=1) as working:
        await working.enqueue("forever", times=4)
        await until(lambda: working.worker.load() == 1)
        await store.work.tell("tester", "run", slots=3)
        await until(lambda: working.worker.load() == 3)
        await sleep(0.05)
        assert working.worker.load() == 3


async def test_stop_is_warm_and_kill_is_cold_however_often_they_are_told(store: Store) -> None:
    async with at_work(store, forever) as working:
        [number] = await working.enqueue("forever")
        await until(lambda: working.worker.load() == 1)
        for _ in range(3):
            await store.work.tell("tester", "stop")
            await until(lambda: working.asked_to_stop == 1)
            await sleep(0.05)
        assert working.asked_to_stop == 1
        assert working.worker.load() == 1
        await store.work.tell("tester", "kill")
        assert working.run is not None
        await working.run
        assert working.asked_to_stop == 2
    job = await store.jobs.get(number)
    assert (job.state, job.attempt) == (State.READY, 0)


# How it ends.


async def test_a_warm_stop_ends_what_runs_and_gives_back_what_waits(store: Store) -> None:
    go = asyncio.Event()

    async def wait() -> int:
        await go.wait()
        return 5

    async with at_work(store, wait, concurrency=2) as working:
        first, second = await working.enqueue("wait", times=2)
        await until(lambda: working.worker.load() == 2)
        working.stop.set()
        [third] = await working.enqueue("wait")
        await until(lambda: not working.worker.runner.accepts)
        go.set()
        await working.leave()
    jobs = [await store.jobs.get(number) for number in (first, second, third)]
    assert [job.state for job in jobs] == [State.SUCCEEDED, State.SUCCEEDED, State.READY]
    assert jobs[2].attempt == 0


async def test_what_is_claimed_while_a_worker_stops_is_given_back_before_it_goes(
    store: Store,
) -> None:
    line = Line(store)
    async with at_work(line.store, nothing) as working:

        async def slow(real: Fault, *args: object) -> object:
            turn = await real(*args)
            if turn.jobs:
                working.stop.set()
                await sleep(0.2)
            return turn

        line.faults["work.finish_and_claim"] = slow
        [number] = await working.enqueue("nothing")
        await until(working.stop.is_set)
        await working.leave()
    job = await store.jobs.get(number)
    assert (job.state, job.attempt, job.crashes) == (State.READY, 0, 0)


async def test_a_cold_stop_gives_back_what_runs_and_costs_no_try(store: Store) -> None:
    def polite() -> None:
        until_cancelled()

    async with at_work(store, forever, polite) as working:
        [first], [second] = await working.enqueue("forever"), await working.enqueue("polite")
        await until(lambda: working.worker.load() == 2)
        await working.leave(cold=True)
    for number in (first, second):
        job = await store.jobs.get(number)
        assert (job.state, job.attempt, job.crashes) == (State.READY, 0, 0)
        assert "its worker stops" in job.reason


async def test_the_lease_outlives_a_thread_that_cannot_be_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "COLD_SECONDS", 0.1)
    go = threading.Event()

    def stubborn() -> None:
        go.wait(10)

    async with at_work(store, stubborn) as working:
        [number] = await working.enqueue("stubborn")
        await until(lambda: working.worker.load() == 1)
        await working.leave(cold=True)
        assert len(await store.work.living()) == 1
        assert (await store.jobs.get(number)).state is State.RUNNING
        go.set()
        await until(lambda: working.worker.load() == 0)


@pytest.mark.parametrize("cold", [True, False])
async def test_a_worker_whose_store_is_away_still_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch, cold: bool
) -> None:
    monkeypatch.setattr(worker_module, "COLD_SECONDS", 0.3)
    line = Line(store)
    async with at_work(line.store, nothing) as working:
        for verb in ("finish_and_claim", "settle", "renew", "listen_to", "end_lease"):
            line.faults[f"work.{verb}"] = raising(StoreUnavailable)
        working.worker.runner.outbox.done = [JobDone(4711, 4711)]
        begun = boottime()
        await working.leave(cold=cold)
        assert boottime() - begun < 3


# When its lease is in doubt.


async def test_a_worker_without_a_lease_stops_its_jobs_and_takes_another_number(
    store: Store,
) -> None:
    line = Line(store)
    async with at_work(line.store, forever, nothing, lease=SHORT) as working:
        [number] = await working.enqueue("forever")
        await until(lambda: working.worker.load() == 1)
        before, sent = working.number, boottime()
        line.faults["work.renew"] = raising(StoreUnavailable)
        await working.hear(WorkerFenced)
        await until(lambda: working.worker.load() == 0)
        assert boottime() - sent < SHORT.total_seconds()
        line.faults.clear()
        await until(lambda: len(working.heard(WorkerRegistered)) == 2)
        await until(lambda: working.worker.load() == 1)  # it runs again, under the new lease
        job = await store.jobs.get(number)
        assert (job.attempt, job.crashes) == (1, 0)
        assert working.number != before
        assert working.heard(FencingFailed) == []


async def test_what_somebody_else_took_meanwhile_is_not_written_over(store: Store) -> None:
    line = Line(store)
    go = threading.Event()

    def deaf() -> int:
        go.wait(10)
        return 5

    other = await store.work.register(profile("other", tasks=("deaf",)), lease=LONG_LEASE)
    async with at_work(line.store, deaf, lease=SHORT) as working:
        [number] = await working.enqueue("deaf")
        await until(lambda: working.worker.load() == 1)
        line.faults["work.register"] = raising(StoreUnavailable)
        await store.work.end_lease(working.number)
        fenced = await working.hear(WorkerFenced)
        assert fenced.reason == "it had expired"
        await working.became(number, State.READY)
        request = ClaimRequest(worker=other.id, queue="default", tasks=["deaf"], limit=1, shelf=4)
        await until(lambda: bool(working.heard(FencingFailed)))
        [job] = (await store.work.claim(request)).jobs
        go.set()
        refused = await working.hear(WriteRefused)
        assert refused.job == number
        assert refused.fence < job.fence
        assert (await store.jobs.get(number)).worker == other.id
        line.faults.clear()


async def test_a_task_that_blocks_the_loop_costs_nobody_the_lease(url: str) -> None:
    async def rude() -> None:
        PAUSE.wait(SHORT.total_seconds() * 1.3)

    async with (
        opened(url) as store,
        at_work(store, rude, forever, lease=SHORT, heart=heart_of(url)) as working,
    ):
        [bystander] = await working.enqueue("forever")
        await until(lambda: working.worker.load() == 1)
        [number] = await working.enqueue("rude")
        assert (await working.ended(number)).attempt == 1
        await sleep(0.1)
        assert working.heard(WorkerFenced) == []
        assert bystander in working.worker.running()


@pytest.mark.parametrize("verb", ["finish_and_claim", "claim"])
async def test_a_lost_answer_costs_nobody_a_run(store: Store, verb: str) -> None:
    ran: list[int] = []

    async def count(number: int) -> None:
        ran.append(number)

    line = Line(store)
    needs = {"gpu": 1} if verb == "claim" else {}
    lost = 0

    async def deaf(real: Fault, *args: object) -> object:
        nonlocal lost
        answer = await real(*args)
        if (answer.jobs if verb == "finish_and_claim" else answer) and lost < 3:
            lost += 1
            raise OutcomeUnknown("the answer was lost")
        return answer

    line.faults[f"work.{verb}"] = deaf
    task = define(count, needs=needs)
    async with at_work(line.store, task, concurrency=3, resources={"gpu": 3}) as working:
        numbers = [(await working.enqueue("count", number=number))[0] for number in range(12)]
        for number in numbers:
            await working.ended(number)
    assert sorted(ran) == list(range(12))
    assert lost == 3


async def test_a_job_that_was_claimed_when_it_was_fired_runs_once_though_the_answer_was_lost(
    store: Store,
) -> None:
    ran: list[int] = []

    async def count() -> None:
        ran.append(current().job.id)

    line = Line(store)
    lost: list[int] = []

    async def deaf(real: Fault, *args: object, **words: object) -> object:
        fired = await real(*args, **words)
        if fired.claimed and len(lost) < 3:
            lost.extend(job.id for job in fired.claimed)
            raise OutcomeUnknown("the answer was lost")
        return fired

    line.faults["ledger.fire"] = deaf
    async with at_work(line.store, count, scheduler=True):
        moments = [now() + timedelta(milliseconds=100 * n) for n in range(1, 13)]
        plans = [plan(f"{n}", moment.isoformat(), task="count") for n, moment in enumerate(moments)]
        await store.schedules.add(plans)
        await until(lambda: len(ran) >= len(plans))
    assert len(lost) == 3
    assert sorted(ran) == sorted({*ran, *lost})


async def test_a_worker_with_jobs_leaves_fired_ones_to_the_others(store: Store) -> None:
    offers: list[Offer | None] = []

    async def fire(offer: Offer | None) -> FiringResult:
        offers.append(offer)
        return FiringResult()

    async with at_work(store, forever, five) as working:
        planner = working.worker.planner
        await until(lambda: planner.is_idle)
        await planner.run_fired(fire)
        await working.enqueue("forever")
        await until(lambda: working.worker.load() == 1)
        await planner.run_fired(fire)
        number = working.number
    idle, busy = offers
    assert busy is None
    assert idle is not None
    assert (request := idle(plan(task="five"))) is not None
    assert (request.worker, request.queue, request.limit) == (number, "default", 1)
    assert idle(plan(task="five", queue="another")) is None
    assert idle(plan(task="unknown")) is None


async def test_every_job_of_a_restless_store_is_run_once(store: Store) -> None:
    ran: list[int] = []

    async def count(number: int) -> None:
        ran.append(number)
        await sleep(0)
        if number % 5 == 0:
            raise ValueError(number)

    line = Line(store)
    calls = 0

    async def restless(real: Fault, *args: object) -> object:
        nonlocal calls
        calls += 1
        if calls % 7 == 0:
            raise StoreUnavailable("away")
        answer = await real(*args)
        if calls % 5 == 0:
            raise OutcomeUnknown("lost")
        return answer

    for verb in ("finish_and_claim", "settle"):
        line.faults[f"work.{verb}"] = restless
    task = define(count, retry=Retry(attempts=1))
    async with at_work(line.store, task, concurrency=20) as working:
        registry = working.registry
        asked = [registry.call(task, (), {"number": number}) for number in range(300)]
        numbers = await store.jobs.enqueue(asked)
        for number in numbers:
            await working.ended(number)
        assert working.heard(WriteRefused) == []
    assert sorted(ran) == list(range(300))


async def test_events_of_trouble_come_through_the_worker(store: Store) -> None:
    go = asyncio.Event()

    async def stubborn() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    def slow() -> None:
        until_cancelled()

    tasks = (
        define(stubborn, timeout="50ms", grace="50ms", retry=None),
        define(slow, timeout="20ms", executor="thread"),
    )
    async with at_work(store, *tasks) as working:
        [stuck], [late] = await working.enqueue("stubborn"), await working.enqueue("slow")
        assert (await working.hear(JobStuck)).job == stuck
        assert (await working.hear(TimeoutIgnored)).job == late
        go.set()
        assert (await working.ended(late)).state is State.SUCCEEDED
        assert (await working.ended(stuck)).reason.startswith("attempt 1 of 1 ran longer than 50ms")
