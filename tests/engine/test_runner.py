"""The jobs that a worker runs: slots, ends of every kind, and how each is stopped."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from datetime import timedelta
from time import monotonic
from typing import Any

import msgspec
import pytest

from duly.clock import sleep
from duly.engine.capacity import CompletionRate
from duly.engine.execution import Execution, StopReason
from duly.engine.executors import LoopTimers, OnEnd
from duly.engine.executors.in_process import ROW_SECONDS, CoroutineExecutor
from duly.errors import Permanent, RetryAfter
from duly.events import JobEnded, JobStarted, JobStuck, TimeoutIgnored
from duly.model.outcome import Raised, Succeeded
from duly.model.payload import encode
from duly.model.states import Move
from duly.model.terms import Callback, Terms
from duly.policy.retry import Retry
from duly.registry.context import Context, current
from duly.registry.definition import define
from duly.store.values import Settlement
from tests.engine.workshop import Bench, Task, memory_store, until, until_cancelled

SOON = timedelta(seconds=0.05)
COLOUR = ContextVar("colour", default="as it was")
Make = Callable[..., Bench]


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., Bench]]:
    """Benches with one store, cleared away afterwards."""
    made: list[Bench] = []

    def make(*tasks: Task, **changes: Any) -> Bench:
        made.append(Bench(store, *tasks, **changes))
        return made[-1]

    async with memory_store() as store:
        yield make
        for bench in made:
            await bench.threads.close()


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def five() -> int:
    return 5


async def nothing() -> None:
    pass


async def forever() -> None:
    await asyncio.Event().wait()


def plain_five() -> int:
    return 5


async def fail() -> None:
    raise ValueError("oh")


def plainly_fail() -> None:
    raise ValueError("oh")


async def settled(bench: Bench, *tasks: str) -> Settlement:
    await bench.run(*tasks)
    [found] = bench.runner.outbox.settlements
    return found


# What comes of a job.


@pytest.mark.parametrize("task", [five, plain_five])
async def test_a_result_is_kept(make: Make, task: Callable[..., object]) -> None:
    bench = make(task)
    await bench.run(task.__name__)
    [done] = bench.runner.outbox.done
    assert done.result == "5"
    assert done.keep == 7 * 24 * 3600 * 1_000_000


async def test_a_job_that_something_waits_for_is_settled_and_not_finished_in_passing(
    make: Make,
) -> None:
    bench = make(five)
    await bench.run("five", key="one", terms=Terms(on_success=Callback(task="five")))
    [settlement] = bench.runner.outbox.settlements
    assert (settlement.verdict.move, settlement.result) == (Move.SUCCEED, "5")
    assert bench.runner.outbox.done == []


async def raise_it(error: BaseException) -> None:
    raise error


ENDS: Mapping[str, tuple[BaseException, Move, str]] = {
    "error": (ValueError("oh"), Move.AGAIN, "attempt 1 of 3 raised ValueError: oh; next try in"),
    "permanent": (Permanent("no"), Move.FAIL, "failed for good: Permanent: no"),
    "after": (RetryAfter("5m"), Move.AGAIN, "next try in 5m"),
    "outside": (KeyError("k"), Move.FAIL, "not retried: KeyError is not in on="),
    "wordless": (Wordless(), Move.AGAIN, "Wordless: (its text cannot be made: RuntimeError)"),
    "exit": (SystemExit(3), Move.AGAIN, "SystemExit: 3"),
    "interrupt": (KeyboardInterrupt(), Move.AGAIN, "KeyboardInterrupt"),
    "base": (GeneratorExit("base"), Move.AGAIN, "GeneratorExit: base"),
    "group": (ExceptionGroup("two", [ValueError("a")]), Move.AGAIN, "ExceptionGroup: two"),
}


@pytest.mark.parametrize("way", ["coroutine", "thread"])
@pytest.mark.parametrize("end", ENDS)
async def test_whatever_a_task_raises_its_job_goes_on(make: Make, way: str, end: str) -> None:
    error, move, reason = ENDS[end]

    async def awaited() -> None:
        await sleep(0)
        raise error

    def called() -> None:
        raise error

    retry = Retry(on=(ValueError, Wordless, ExceptionGroup))
    task = define(awaited if way == "coroutine" else called, name="task", retry=retry)
    settlement = await settled(make(task), "task")
    assert settlement.verdict.move is move
    assert reason in settlement.verdict.reason
    assert settlement.outcome == "raised"


async def test_a_task_that_cancels_itself_has_failed(make: Make) -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    settlement = await settled(make(cancel), "cancel")
    assert settlement.verdict.move is Move.AGAIN
    assert "not by duly" in settlement.verdict.reason


@pytest.mark.parametrize("way", ["coroutine", "thread"])
async def test_a_result_that_cannot_be_kept_fails_the_job_for_good(make: Make, way: str) -> None:
    async def awaited():  # type: ignore[no-untyped-def]  # noqa: ANN202
        return object()

    def called():  # type: ignore[no-untyped-def]  # noqa: ANN202
        return object()

    bench = make(define(awaited if way == "coroutine" else called, name="task"))
    settlement = await settled(bench, "task")
    assert settlement.verdict.move is Move.FAIL
    assert "its result cannot be stored" in settlement.verdict.reason


async def test_an_attempt_that_never_began_because_its_time_was_over_expires(make: Make) -> None:
    bench = make(five)
    [job] = await bench.claimed("five", start_within=timedelta(microseconds=1))
    assert job.is_late
    bench.runner.take([job])
    [settlement] = bench.runner.outbox.settlements
    assert (settlement.verdict.move, bench.heard(JobStarted)) == (Move.EXPIRE, [])


async def test_a_late_job_that_runs_anyway_runs(make: Make) -> None:
    bench = make(five)
    await bench.run("five", start_within=timedelta(microseconds=1), late="run")
    assert len(bench.runner.outbox.done) == 1


async def test_arguments_that_do_not_fit_park_the_job(make: Make) -> None:
    bench = make(five)
    await bench.run("five", args=encode({"unknown": 1}))
    [settlement] = bench.runner.outbox.settlements
    verdict = settlement.verdict
    signature = bench.registry.get("five").signature.fingerprint
    assert (verdict.move, verdict.waits, verdict.waits_for) == (Move.PARK, "signature", signature)
    assert not verdict.counts


async def test_a_task_that_nobody_knows_here_is_given_back(make: Make) -> None:
    bench = make(five)
    [job] = await bench.claimed("stranger")
    bench.runner.take([job])
    [settlement] = bench.runner.outbox.settlements
    assert settlement.verdict.move is Move.GIVE_BACK
    assert not settlement.verdict.counts


async def test_what_cannot_even_be_started_has_failed(make: Make) -> None:
    class Broken(LoopTimers):
        def start(self, *_: object) -> None:
            raise RuntimeError("can't start new thread")

        def kill(self) -> None: ...

        async def close(self) -> None: ...

    bench = make(five, executors={"async": Broken()})
    settlement = await settled(bench, "five")
    assert "can't start new thread" in settlement.verdict.reason
    bench.now += 1  # nothing is expected any more because of what has just ended
    assert bench.runner.wanted == 10


async def test_a_job_whose_terms_cannot_be_read_has_failed_and_others_run(make: Make) -> None:
    bench = make(five)
    first, second = await bench.claimed("five", "five")
    broken = msgspec.structs.replace(first, terms_text='{"timeout": "never"}')
    bench.runner.take([broken, second])
    await until(lambda: len(bench.runner.outbox.done) == 1)
    [settlement] = bench.runner.outbox.settlements
    assert settlement.job.id == first.id
    assert settlement.verdict.move is Move.AGAIN


async def test_an_end_that_is_told_twice_counts_once(make: Make) -> None:
    class Twice(CoroutineExecutor):
        def start(self, run: Execution, _: Mapping[str, object], over: OnEnd) -> None:
            over(run, Succeeded())
            over(run, Raised("Error"))

    bench = make(five, executors={"async": Twice()})
    await bench.run("five")
    assert (len(bench.runner.outbox.done), bench.runner.outbox.settlements) == (1, [])


async def test_a_task_knows_its_job(make: Make) -> None:
    seen: list[tuple[int, int]] = []

    async def awaited() -> None:
        seen.append((current().job.id, current().attempt))

    def called(context: Context) -> None:
        seen.append((context.job.id, current().job.id))

    bench = make(awaited, define(called, takes_context=True))
    [one] = await bench.claimed("awaited")
    [two] = await bench.claimed("called")
    bench.runner.take([one, two])
    await until(lambda: not bench.runner.running)
    assert sorted(seen) == [(one.id, 1), (two.id, two.id)]


# How many at once.


async def test_no_more_run_than_there_are_slots(make: Make) -> None:
    bench = make(forever, slots=2)
    bench.runner.take(await bench.claimed(*["forever"] * 5))
    assert (len(bench.runner.running), bench.runner.wanted) == (2, -3)
    bench.runner.stop_all(StopReason.INTERRUPTED)
    await until(lambda: bench.runner.running == {})
    assert len(bench.runner.outbox.settlements) == 5


async def test_the_next_one_starts_when_one_ends(make: Make) -> None:
    bench = make(five, slots=1)
    await bench.run("five", "five", "five")
    assert len(bench.runner.outbox.done) == 3


async def test_what_waits_longer_than_was_expected_is_given_back(make: Make) -> None:
    bench = make(forever, slots=1)
    bench.runner.take(await bench.claimed("forever", "forever"))
    bench.now = 0.5
    bench.runner.take(await bench.claimed("forever"))
    bench.now = 1.2
    await until(lambda: len(bench.runner.outbox.settlements) == 1)
    assert (len(bench.runner.running), len(bench.runner.prefetched)) == (1, 1)
    bench.now = 1.6
    await until(lambda: len(bench.runner.prefetched) == 0)
    moves = [settlement.verdict.move for settlement in bench.runner.outbox.settlements]
    assert moves == [Move.GIVE_BACK, Move.GIVE_BACK]
    bench.runner.stop_all(StopReason.INTERRUPTED)
    await until(lambda: bench.runner.running == {})


async def test_nobody_is_told_of_single_jobs_who_did_not_ask(make: Make) -> None:
    bench = make(five, forever, slots=1, verbose=False)
    await bench.run("five", "five")
    assert bench.events == []


async def test_more_slots_are_used_at_once(make: Make) -> None:
    bench = make(forever, slots=1)
    bench.runner.take(await bench.claimed(*["forever"] * 3))
    bench.runner.resize(3)
    assert len(bench.runner.running) == 3
    bench.runner.resize(1)
    assert (len(bench.runner.running), bench.runner.wanted) == (3, -2)
    bench.runner.stop_all(StopReason.INTERRUPTED)
    await until(lambda: bench.runner.running == {})


async def test_a_crew_that_accepts_nothing_wants_nothing(make: Make) -> None:
    bench = make(five)
    bench.runner.accepts = False
    assert bench.runner.wanted == 0


async def test_what_comes_to_a_crew_that_accepts_nothing_is_given_back(make: Make) -> None:
    bench = make(five)
    jobs = await bench.claimed("five", "five")
    bench.runner.accepts = False
    bench.runner.take(jobs)
    assert [s.verdict.move for s in bench.runner.outbox.settlements] == [Move.GIVE_BACK] * 2
    assert bench.heard(JobStarted) == []


async def test_a_crew_with_a_last_job_wants_none_behind_it(make: Make) -> None:
    bench = make(five, most=3)
    assert bench.runner.wanted == 3
    await bench.run("five", "five")
    assert bench.runner.wanted == 1
    await bench.run("five")
    assert bench.runner.wanted == 0


async def test_what_is_given_back_was_no_work(make: Make) -> None:
    bench = make(five)
    jobs = await bench.claimed("five", "five")
    bench.runner.accepts = False
    bench.runner.take(jobs)
    assert bench.runner.outbox.attempts == 0


def test_what_ran_in_the_last_moments_is_claimed_ahead() -> None:
    now = 0.0
    pace = CompletionRate(lambda: now)
    for _ in range(20):
        now += 0.1
        pace.rate(int(now * 1_000))
    assert pace.rate(2_000) == pytest.approx(1_000, rel=0.01)


def test_long_jobs_are_not_claimed_ahead_for_long() -> None:
    now = 0.0
    pace = CompletionRate(lambda: now)
    now = 1.0
    assert pace.rate(10_000) == 5_000
    for _ in range(10):
        now += 0.1
        pace.rate(10_000)
    assert pace.rate(10_000) * 0.05 < 1


async def test_a_crew_wakes_its_claimers_once_for_all_that_is_over(make: Make) -> None:
    bench = make(five)
    await bench.run(*["five"] * 5)
    assert bench.woken == 1
    bench.runner.outbox.take_done(100)
    await bench.run("five")
    assert bench.woken == 2


async def test_resources_are_in_use_while_a_job_is_here(make: Make) -> None:
    bench = make(forever, slots=1, resources={"gpu": 3, "disk": 1})
    free_before = bench.runner.free
    claimed = await bench.claimed("forever", "forever")
    jobs = [msgspec.structs.replace(job, needs='{"gpu": 1}') for job in claimed]
    bench.runner.take(jobs)
    assert (free_before, bench.runner.free) == ({"gpu": 3, "disk": 1}, {"gpu": 1, "disk": 1})
    bench.runner.stop_all(StopReason.INTERRUPTED)
    await until(lambda: bench.runner.running == {})
    assert bench.runner.free == {"gpu": 3, "disk": 1}


# How it is stopped.


async def test_a_coroutine_whose_time_is_over_is_stopped(make: Make) -> None:
    bench = make(define(forever, timeout=SOON))
    settlement = await settled(bench, "forever")
    assert settlement.outcome == "timedout"
    assert "ran longer than 50ms" in settlement.verdict.reason


async def test_a_job_has_the_time_that_its_caller_gave_it(make: Make) -> None:
    bench = make(define(forever, timeout="1h"))
    await bench.run("forever", terms=Terms(timeout=SOON))
    [settlement] = bench.runner.outbox.settlements
    assert settlement.outcome == "timedout"


async def test_a_coroutine_that_ignores_its_end_is_told_to_be_stuck(make: Make) -> None:
    go = asyncio.Event()

    async def stubborn() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    bench = make(define(stubborn, timeout=SOON, grace=SOON))
    bench.runner.take(await bench.claimed("stubborn"))
    await until(lambda: bool(bench.heard(JobStuck)))
    assert bench.heard(JobStuck)[0].reason == "its time is over"
    assert len(bench.runner.running) == 1
    go.set()
    await until(lambda: bench.runner.running == {})
    assert bench.runner.outbox.settlements[0].outcome == "timedout"


async def test_a_coroutine_that_swallowed_one_stop_can_still_be_stopped(make: Make) -> None:
    async def deaf_at_first() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    bench = make(define(deaf_at_first, timeout=SOON, grace=SOON))
    bench.runner.take(await bench.claimed("deaf_at_first"))
    await until(lambda: bool(bench.heard(JobStuck)))
    bench.runner.stop_all(StopReason.FENCED)
    await until(lambda: bench.runner.running == {})
    assert bench.runner.outbox.settlements[0].outcome == "timedout"  # the first reason is the one


async def test_a_thread_whose_time_is_over_goes_on_and_its_result_counts(make: Make) -> None:
    def slow() -> int:
        until_cancelled()
        return 5

    bench = make(define(slow, timeout=SOON, executor="thread"))
    await bench.run("slow")
    [ignored] = bench.heard(TimeoutIgnored)
    assert ignored.after == SOON
    assert [done.result for done in bench.runner.outbox.done] == ["5"]


async def test_a_thread_whose_time_is_over_can_be_cancelled(make: Make) -> None:
    go = threading.Event()

    def slow() -> None:
        go.wait(10)

    bench = make(define(slow, timeout=SOON, executor="thread"))
    [job] = await bench.claimed("slow")
    bench.runner.take([job])
    await until(lambda: bool(bench.heard(TimeoutIgnored)))
    bench.runner.cancel({job.id: "a person said so"})
    go.set()
    await until(lambda: bench.runner.running == {})
    [settlement] = bench.runner.outbox.settlements
    assert settlement.verdict.move is Move.CANCEL
    assert "a person said so" in settlement.verdict.reason


async def test_a_job_is_cancelled_with_the_reason_given(make: Make) -> None:
    bench = make(forever, slots=1)
    running, waiting = await bench.claimed("forever", "forever")
    bench.runner.take([running, waiting])
    bench.runner.cancel({running.id: "no use", waiting.id: "never", 4711: "of others"})
    await until(lambda: bench.runner.running == {})
    told = {s.job.id: (s.verdict.move, s.verdict.reason) for s in bench.runner.outbox.settlements}
    assert told == {
        running.id: (Move.CANCEL, "cancelled while it ran: no use"),
        waiting.id: (Move.CANCEL, "cancelled while it ran: never"),
    }


async def test_a_cancelled_thread_hears_why(make: Make) -> None:
    heard: list[str] = []

    def polite() -> None:
        heard.append(until_cancelled())

    bench = make(polite)
    [job] = await bench.claimed("polite")
    bench.runner.take([job])
    bench.runner.cancel({job.id: "no use"})
    await until(lambda: bench.runner.running == {})
    assert heard == ["no use"]
    assert bench.runner.outbox.settlements[0].verdict.move is Move.CANCEL


@pytest.mark.parametrize("why", [StopReason.INTERRUPTED, StopReason.FENCED])
async def test_what_the_worker_stops_is_given_back_and_costs_no_try(
    make: Make, why: StopReason
) -> None:
    bench = make(forever, slots=1)
    bench.runner.take(await bench.claimed("forever", "forever"))
    bench.runner.stop_all(why)
    await until(lambda: bench.runner.running == {})
    verdicts = [settlement.verdict for settlement in bench.runner.outbox.settlements]
    assert [(v.move, v.counts) for v in verdicts] == [(Move.GIVE_BACK, False)] * 2
    assert all(why.value in verdict.reason for verdict in verdicts)


async def test_timers_do_not_outlive_their_job(make: Make) -> None:
    bench = make(define(five, timeout="1h"))
    await bench.run("five")
    loop = asyncio.get_running_loop()
    assert [t for t in loop._scheduled if not t.cancelled()] == []  # type: ignore[attr-defined]


async def test_events_tell_of_every_attempt(make: Make) -> None:
    bench = make(five, fail)
    await bench.run("five")
    await bench.run("fail")
    assert [event.task for event in bench.heard(JobStarted)] == ["five", "fail"]
    ends = [(event.task, event.outcome) for event in bench.heard(JobEnded)]
    assert ends == [("five", "succeeded"), ("fail", "raised")]


async def test_a_suspect_runs_alone_unless_a_child_would_not_know_its_task(make: Make) -> None:
    class Ward(CoroutineExecutor):
        started = 0

        def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:
            self.started += 1
            super().start(run, arguments, over)

    ward = Ward()
    bench = make(five, nothing, executors={"async": CoroutineExecutor(), "alone": ward})
    bench.registry.local.add("nothing")
    jobs = await bench.claimed("five", "nothing")
    bench.runner.take([msgspec.structs.replace(job, crashes=2) for job in jobs])
    await until(lambda: not bench.runner.running)
    assert (ward.started, bench.runner.outbox.attempts) == (1, 2)


async def test_a_job_that_crashed_before_is_a_suspect_while_it_is_here(make: Make) -> None:
    bench = make(forever)
    [job] = await bench.claimed("forever")
    suspect = msgspec.structs.replace(job, crashes=1)
    seen = [bench.runner.has_suspect]
    bench.runner.take([suspect])
    seen.append(bench.runner.has_suspect)
    bench.runner.stop_all(StopReason.INTERRUPTED)
    await until(lambda: bench.runner.running == {})
    assert [*seen, bench.runner.has_suspect] == [False, True, False]


# Coroutines that never wait run in a row, in one task.


async def test_jobs_that_never_wait_share_a_task_and_one_that_waits_has_its_own(
    make: Make,
) -> None:
    tasks: dict[str, set[object]] = {"brief": set(), "slow": set()}

    async def brief() -> None:
        tasks["brief"].add(asyncio.current_task())

    async def slow() -> None:
        tasks["slow"].add(asyncio.current_task())
        await sleep(0)
        tasks["slow"].add(asyncio.current_task())

    bench = make(brief, slow)
    await bench.run(*["brief"] * 10)
    assert len(tasks["brief"]) == 1
    await bench.run(*["slow"] * 10)
    assert len(tasks["slow"]) == 10


async def test_a_job_that_waits_holds_up_none_behind_it(make: Make) -> None:
    bench = make(forever, five)
    bench.runner.take(await bench.claimed("forever", *["five"] * 5, "forever", "five"))
    await until(lambda: len(bench.runner.running) == 2)
    assert [one.result for one in bench.runner.outbox.done] == ["5"] * 6
    bench.runner.stop_all(StopReason.INTERRUPTED)
    await until(lambda: not bench.runner.running)


async def test_a_job_does_not_see_the_context_variables_of_the_one_before(make: Make) -> None:
    seen: list[str] = []

    async def colour() -> None:
        seen.append(COLOUR.get())
        COLOUR.set("changed")

    await make(colour).run(*["colour"] * 3)
    assert seen == ["as it was"] * 3


async def test_what_starts_at_the_end_of_a_job_does_not_see_its_context_variables(
    make: Make,
) -> None:
    heard: list[str] = []

    async def colour() -> None:
        COLOUR.set("changed")

    bench = make(colour)
    bench.runner.outbox._wake = lambda: heard.append(COLOUR.get())
    await bench.run("colour")
    assert heard == ["as it was"]


async def test_a_job_that_cancels_its_own_task_cancels_none_behind_it(make: Make) -> None:
    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def wait() -> int:
        await sleep(0)
        return 5

    bench = make(cancel, wait)
    await bench.run("cancel", "wait", "cancel", "wait")
    assert [one.result for one in bench.runner.outbox.done] == [None, "5", None, "5"]


async def test_a_job_that_is_stopped_before_it_begins_never_runs(make: Make) -> None:
    ran: list[int] = []

    async def run() -> None:
        ran.append(1)

    bench = make(run)
    bench.runner.take(await bench.claimed("run", "run"))
    bench.runner.stop_all(StopReason.INTERRUPTED)
    await until(lambda: not bench.runner.running)
    assert ran == []
    assert [one.outcome for one in bench.runner.outbox.settlements] == ["returned"] * 2


async def test_a_long_row_lets_the_event_loop_do_other_work(make: Make) -> None:
    done: list[str] = []

    async def work() -> None:
        until = monotonic() + 2 * ROW_SECONDS
        while monotonic() < until:
            pass
        done.append("job")

    bench = make(work)
    bench.runner.take(await bench.claimed(*["work"] * 5))
    asyncio.get_running_loop().call_soon(done.append, "other")
    await until(lambda: not bench.runner.running)
    assert done == ["job", "other", "job", "job", "job", "job"]
