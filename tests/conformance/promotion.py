"""What waits behind a job is let in when that job ends, however it ends, and not before."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from duly.model.job import StoredJob
from duly.model.outcome import Late, Raised, Returned, Stopped
from duly.model.states import State
from duly.policy.retry import Retry
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, START, World
from tests.factories import plan

RETRY = Retry(attempts=2, backoff="constant", first="30m", jitter=False).as_json()


async def _let_in(
    world: World, how: Callable[[StoredJob], Awaitable[object]], after: list[str]
) -> None:
    """One job runs and two wait behind it; then the first one is done something to."""
    await world.add(plan(overlap="queue_all"))
    for _ in range(3):
        await world.fire_after(MINUTE)
    first = await world.begin()
    equal(await world.states(), ["running", "blocked", "blocked"])
    await how(first)
    equal(await world.states(), after)


@check
async def success_lets_in_the_next(world: World) -> None:
    await _let_in(world, world.end, ["ready", "blocked"])
    job = await world.begin()
    equal((job.due_at, job.reason), (START + 2 * MINUTE, ""), "the oldest of them")


@check
async def failure_lets_in_the_next(world: World) -> None:
    await _let_in(world, lambda job: world.end(job, Raised("Oops")), ["ready", "blocked"])


@check
async def a_stopped_run_lets_in_the_next(world: World) -> None:
    await _let_in(world, lambda job: world.end(job, Stopped()), ["ready", "blocked"])


@check
async def an_expired_run_lets_in_the_next(world: World) -> None:
    await _let_in(world, lambda job: world.end(job, Late()), ["ready", "blocked"])


@check
async def a_run_that_is_given_back_is_not_over(world: World) -> None:
    await _let_in(world, lambda job: world.end(job, Returned()), ["ready", "blocked", "blocked"])


@check
async def a_lost_run_is_not_over(world: World) -> None:
    await _let_in(world, world.lose, ["ready", "blocked", "blocked"])


@check
async def a_run_that_crashed_three_times_is_over(world: World) -> None:
    async def crash_thrice(job: StoredJob) -> None:
        await world.lose(job)
        for _ in range(2):
            await world.lose(await world.begin())

    await _let_in(world, crash_thrice, ["ready", "blocked"])
    equal(len(await world.store.jobs.ended(State.FAILED)), 1)


@check
async def a_run_that_will_be_tried_again_is_not_over(world: World) -> None:
    await world.add(plan(overlap="queue_one", retry=RETRY))
    await world.fire_after(MINUTE)
    job = await world.begin()
    await world.fire_after(MINUTE)
    await world.end(job, Raised("Oops"))
    equal(await world.states(), ["scheduled", "blocked"])
    world.wait(timedelta(minutes=30))
    await world.dispatch()
    await world.end(await world.begin(), Raised("Oops"))
    equal(await world.states(), ["ready"])


@check
async def a_cancelled_job_lets_in_the_next(world: World) -> None:
    await world.add(plan(overlap="queue_all"))
    for _ in range(3):
        await world.fire_after(MINUTE)
    [first, second, _] = await world.live()
    await world.store.jobs.cancel(second.id)
    equal(await world.states(), ["ready", "blocked"], "one in the middle just goes")
    await world.store.jobs.cancel(first.id)
    equal(await world.states(), ["ready"])


@check
async def a_job_that_expires_before_it_began_lets_in_the_next(world: World) -> None:
    await world.add(plan(overlap="queue_all", start_within=timedelta(seconds=90)))
    await world.fire_after(MINUTE)
    await world.fire_after(MINUTE)
    world.wait(timedelta(seconds=31))
    equal((await world.dispatch()).expired, 1)
    equal(await world.states(), ["ready"])


@check
async def whoever_is_let_in_before_its_time_waits_for_its_time(world: World) -> None:
    await world.add(plan(overlap="queue_one", jitter=timedelta(hours=5)))
    await world.fire_after(MINUTE)
    [first] = await world.live()
    world.clock.set(first.ready_at)
    await world.dispatch()
    running = await world.begin()
    [*_, fire] = await world.fired_after(MINUTE)
    second = await world.job(fire.job_id)
    equal(str(second.state), "blocked")
    await world.end(running)
    late = second.ready_at <= world.now
    equal(await world.states(), ["ready" if late else "scheduled"])


@check
async def a_failed_job_that_is_retried_waits_behind_the_one_that_runs(world: World) -> None:
    await world.add(plan())
    [fire] = await world.fired_after(MINUTE)
    await world.end(await world.begin(), Raised("Oops"))
    await world.fire_after(MINUTE)
    running = await world.begin()
    retried = await world.by("ann").jobs.retry(fire.job_id or 0)
    equal(str(retried.state), "blocked")
    await world.end(running)
    equal(await world.states(), ["ready"])
    equal((await world.begin()).id, fire.job_id)


@check
async def never_do_two_runs_of_a_schedule_meet(world: World) -> None:
    """Twenty minutes of fires, manual runs, retries and losses, and at most one run at a time."""
    await world.add(plan(overlap="queue_all", retry=RETRY))
    for turn in range(21):
        await world.fire_after(MINUTE)
        if turn % 7 == 3:
            await world.store.schedules.run("report")
        await world.dispatch()
        claimed = await world.claim(10)
        running = [job for job in await world.live() if job.state is State.RUNNING]
        holds(len(running) <= 1, f"{len(running)} run at once")
        for job in claimed:
            match turn % 5:
                case 0:
                    await world.end(job, Raised("Oops"))
                case 1:
                    await world.lose(job)
                case 2:
                    continue
                case _:
                    await world.end(job)
        for job in running if turn % 5 == 4 else []:
            await world.end(job)


@check
async def what_waits_is_let_in_although_its_schedule_was_removed(world: World) -> None:
    await world.add(plan(overlap="queue_all"))
    await world.fire_after(MINUTE)
    await world.fire_after(MINUTE)
    await world.store.schedules.remove("report")
    await world.end(await world.begin())
    await world.store.maintenance.sweep(limit=100)
    equal(await world.states(), ["ready"])
    equal(await world.store.maintenance.sweep(limit=100), 0)
