"""Jobs that are promised: at once, at a moment, after a delay; cancelled; given another chance."""

from datetime import timedelta

from duly.errors import NotFound, WrongState
from duly.model.outcome import Raised
from duly.model.states import State
from duly.policy.retry import Retry
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan

MICROSECOND = timedelta(microseconds=1)


@check
async def a_job_without_a_time_is_ready_at_once(world: World) -> None:
    job = await world.job(await world.enqueue(call()))
    equal((str(job.state), job.created_at, job.due_at, job.ready_at), ("ready", *[START] * 3))
    equal((job.attempt, job.worker, job.schedule_id, job.fire_id), (0, None, None, None))


@check
async def a_job_may_wait_for_a_moment_or_a_delay(world: World) -> None:
    numbers = await world.store.jobs.enqueue(
        [call(run_after=START + HOUR), call(run_after=MINUTE), call(run_after=START - HOUR)]
    )
    found = [await world.job(number) for number in numbers]
    equal([(str(job.state), job.due_at - START) for job in found],
          [("scheduled", HOUR), ("scheduled", MINUTE), ("ready", -HOUR)])  # fmt: skip
    equal([job.id for job in await world.claim(10)], [numbers[2]])


@check
async def a_job_is_ready_exactly_at_its_moment(world: World) -> None:
    await world.enqueue(call(run_after=MINUTE))
    world.wait(MINUTE - MICROSECOND)
    equal(((await world.dispatch()).ready, (await world.dispatch()).rest), (0, MICROSECOND))
    world.wait(MICROSECOND)
    equal((await world.dispatch()).ready, 1)
    equal(await world.states(), ["ready"])


@check
async def numbers_come_in_the_order_of_the_calls_and_rise(world: World) -> None:
    numbers = await world.store.jobs.enqueue(
        [call(title=f"{n}", key=f"{n}" if n % 3 else None) for n in range(20)]
    )
    equal([(await world.job(number)).title for number in numbers], [f"{n}" for n in range(20)])
    equal(numbers, sorted(set(numbers)))


@check
async def thousands_are_enqueued_in_one_call(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call(title=str(n)) for n in range(5_000)])
    equal(len(set(numbers)), 5_000)
    equal((await world.store.maintenance.progress()).ready, 5_000)
    claimed = await world.claim(3)
    equal([job.title for job in claimed], ["0", "1", "2"])


@check
async def nothing_is_enqueued_by_an_empty_call(world: World) -> None:
    equal(await world.store.jobs.enqueue([]), [])


@check
async def an_unknown_job_is_refused(world: World) -> None:
    with refused(NotFound, "there is no job 4711"):
        await world.job(4711)
    with refused(NotFound):
        await world.store.jobs.cancel(4711)
    with refused(NotFound):
        await world.store.jobs.retry(4711)


@check
async def unfinished_jobs_are_listed_a_page_at_a_time(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call() for _ in range(5)])
    first = await world.store.jobs.page(limit=3)
    second = await world.store.jobs.page(after=first[-1].id, limit=3)
    equal([job.id for job in (*first, *second)], numbers)


@check
async def what_has_ended_is_listed_by_how_it_ended_the_newest_first(world: World) -> None:
    for turn in range(3):
        await world.enqueue(call(title=f"good {turn}"), call(title=f"bad {turn}"))
        good, bad = await world.claim(2)
        await world.end(good)
        await world.end(bad, Raised("Oops"))
        world.wait(MINUTE)
    ended = world.store.jobs.ended
    equal([j.title for j in await ended(State.SUCCEEDED)], ["good 2", "good 1", "good 0"])
    equal([j.title for j in await ended(State.FAILED)], ["bad 2", "bad 1", "bad 0"])
    equal([j.title for j in await ended(State.FAILED, since=START + MINUTE)], ["bad 2", "bad 1"])
    equal([j.title for j in await ended(State.SUCCEEDED, limit=1)], ["good 2"])
    equal(await ended(State.CANCELLED), [])


@check
async def a_job_that_waits_is_cancelled_at_once(world: World) -> None:
    for run_after in (None, MINUTE):
        number = await world.enqueue(call(run_after=run_after))
        equal(await world.store.jobs.cancel(number, reason="not needed"), State.CANCELLED)
        job = await world.job(number)
        equal((job.state, job.ended_at), (State.CANCELLED, world.now))
        holds("not needed" in job.reason, "the reason is kept")
    equal(await world.live(), [])


@check
async def a_job_that_runs_is_asked_to_end(world: World) -> None:
    number = await world.enqueue(call())
    job = await world.begin()
    equal(await world.store.jobs.cancel(number, reason="enough"), State.RUNNING)
    signals = await world.signals(job.worker or 0)
    holds(list(signals) == [number] and "enough" in signals[number], "the worker is told why")
    equal(await world.signals(0), {}, "and no other")
    await world.end(job)
    equal((await world.job(number)).state, State.SUCCEEDED, "it was quicker")
    equal(await world.signals(job.worker or 0), {})


@check
async def a_job_that_gets_another_chance_is_not_asked_to_end_any_more(world: World) -> None:
    number = await world.enqueue(call())
    running = await world.begin()
    await world.store.jobs.cancel(number)
    await world.end(running, Raised("Oops"))
    await world.store.jobs.retry(number)
    again = await world.begin()
    equal(await world.signals(again.worker or 0), {})


@check
async def what_has_ended_cannot_be_cancelled(world: World) -> None:
    number = await world.enqueue(call())
    await world.end(await world.begin())
    with refused(WrongState, "succeeded"):
        await world.store.jobs.cancel(number)


@check
async def a_failed_job_gets_another_chance_under_its_own_number(world: World) -> None:
    retry = Retry(attempts=1).as_json()
    number = await world.enqueue(call(retry=retry, title="t"))
    await world.end(await world.begin(), Raised("Oops", "no luck"))
    world.wait(MINUTE)
    job = await world.by("ann").jobs.retry(number)
    equal((job.id, job.state, job.attempt, job.crashes, job.title),
          (number, State.READY, 0, 0, "t"))  # fmt: skip
    holds("ann" in job.reason, "it says who asked")
    equal(await world.store.jobs.ended(State.FAILED), [])
    await world.end(await world.begin())
    equal((await world.job(number)).state, State.SUCCEEDED)
    equal(len(await world.store.jobs.attempts(number)), 1, "what happened before is not forgotten")


@check
async def only_a_failed_job_gets_another_chance(world: World) -> None:
    number = await world.enqueue(call())
    with refused(WrongState, "ready"):
        await world.store.jobs.retry(number)
    await world.end(await world.begin())
    with refused(WrongState, "succeeded"):
        await world.store.jobs.retry(number)


@check
async def a_job_can_fail_again_after_another_chance(world: World) -> None:
    number = await world.enqueue(call())
    for _ in range(3):
        await world.end(await world.begin(), Raised("Oops"))
        equal((await world.job(number)).state, State.FAILED)
        await world.store.jobs.retry(number)
    equal(len(await world.store.jobs.attempts(number)), 3)


@check
async def a_failed_job_of_a_schedule_that_was_removed_gets_another_chance(world: World) -> None:
    await world.add(plan())
    [fire] = await world.fired_after(MINUTE)
    await world.end(await world.begin(), Raised("Oops"))
    await world.store.schedules.remove("report")
    equal((await world.store.jobs.retry(fire.job_id or 0)).state, State.READY)
    equal((await world.end(await world.begin())).kept, [fire.job_id])
