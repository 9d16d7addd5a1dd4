"""A fixed delay begins with the end of the run, in the transaction that ends it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from duly.model.job import StoredJob
from duly.model.outcome import Late, Raised, Returned, Stopped
from duly.model.policies import Missed
from duly.policy.retry import Retry
from tests.conformance.expect import equal
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan

TEN = timedelta(minutes=10)
RETRY = Retry(attempts=2, backoff="constant", first="30m", jitter=False).as_json()


async def _running(world: World, **policies: Any) -> StoredJob:
    """A schedule with a fixed delay of ten minutes, whose first run has taken one."""
    await world.add(plan(rule="spaced 10m", **policies))
    await world.fire()
    job = await world.begin()
    world.wait(MINUTE)
    return job


async def _begins_the_delay(world: World, how: Callable[[StoredJob], Awaitable[object]]) -> None:
    job = await _running(world)
    await how(job)
    found = await world.schedule()
    equal((found.next_at, found.awaiting), (world.now + TEN, None))


async def _is_no_end(world: World, how: Callable[[StoredJob], Awaitable[object]]) -> None:
    job = await _running(world, retry=RETRY)
    await how(job)
    found = await world.schedule()
    equal((found.next_at, found.awaiting), (None, job.id))


@check
async def the_first_run_is_at_once(world: World) -> None:
    added = await world.add(plan(rule="spaced 10m"))
    equal(added.next_at, START)
    equal([(f.due_at, str(f.outcome)) for f in await world.fired_after(timedelta(0))],
          [(START, "queued")])  # fmt: skip


@check
async def the_first_run_may_wait_once(world: World) -> None:
    equal((await world.add(plan(rule="spaced 10m", first="wait"))).next_at, START + TEN)


@check
async def while_a_run_lasts_there_is_no_next_moment(world: World) -> None:
    job = await _running(world)
    found = await world.schedule()
    equal((found.next_at, found.awaiting), (None, job.id))
    world.wait(timedelta(days=3))
    equal((await world.fire()).rest, None)


@check
async def success_begins_the_delay(world: World) -> None:
    await _begins_the_delay(world, world.end)


@check
async def failure_begins_the_delay(world: World) -> None:
    await _begins_the_delay(world, lambda job: world.end(job, Raised("Oops")))


@check
async def a_stop_begins_the_delay(world: World) -> None:
    await _begins_the_delay(world, lambda job: world.end(job, Stopped("enough")))


@check
async def expiry_of_a_run_begins_the_delay(world: World) -> None:
    await _begins_the_delay(world, lambda job: world.end(job, Late()))


@check
async def cancelling_a_job_that_waits_begins_the_delay(world: World) -> None:
    await world.add(plan(rule="spaced 10m"))
    await world.fire()
    [job] = await world.live()
    world.wait(MINUTE)
    await world.store.jobs.cancel(job.id)
    equal((await world.schedule()).next_at, world.now + TEN)


@check
async def expiry_of_a_job_that_waits_begins_the_delay(world: World) -> None:
    await world.add(plan(rule="spaced 10m", start_within=MINUTE))
    await world.fire()
    world.wait(2 * MINUTE)
    equal((await world.dispatch()).expired, 1)
    equal((await world.schedule()).next_at, world.now + TEN)


@check
async def a_third_crash_begins_the_delay(world: World) -> None:
    async def crash_thrice(job: StoredJob) -> None:
        await world.lose(job)
        for _ in range(2):
            equal((await world.schedule()).next_at, None, "a crash is no end")
            await world.lose(await world.begin())

    await _begins_the_delay(world, crash_thrice)


@check
async def another_try_is_no_end(world: World) -> None:
    await _is_no_end(world, lambda job: world.end(job, Raised("Oops")))


@check
async def a_loss_is_no_end(world: World) -> None:
    await _is_no_end(world, world.lose)


@check
async def giving_back_is_no_end(world: World) -> None:
    await _is_no_end(world, lambda job: world.end(job, Returned()))


@check
async def a_run_ends_once_for_the_delay(world: World) -> None:
    job = await _running(world)
    await world.end(job, Raised("Oops"))
    after = await world.schedule()
    world.wait(MINUTE)
    await world.end(job, Raised("Oops"))
    await world.store.jobs.retry(job.id)
    await world.end(await world.begin())
    equal((await world.schedule()).next_at, after.next_at, "a repeated end moves nothing")


@check
async def a_fire_without_a_job_begins_the_delay_itself(world: World) -> None:
    await world.add(plan(rule="spaced 10m", first="wait"))
    await world.store.schedules.run("report")
    [fire] = await world.fired_after(TEN + MINUTE)
    equal((fire.due_at, str(fire.cause)), (START + TEN, "overlap"))
    equal((await world.schedule()).next_at, world.now + TEN)


@check
async def a_delay_that_ended_in_an_outage_is_one_moment(world: World) -> None:
    await world.end(await _running(world))
    due = (await world.schedule()).next_at
    fires = await world.fired_after(timedelta(days=365))
    equal([(f.due_at, f.count, str(f.outcome)) for f in fires], [(due, 1, "queued")])


@check
async def a_delay_that_ended_too_long_ago_may_be_skipped(world: World) -> None:
    await world.end(await _running(world, missed=Missed("skip")))
    [fire] = await world.fired_after(HOUR)
    equal((str(fire.outcome), str(fire.cause)), ("skipped", "missed"))
    equal((await world.schedule()).next_at, world.now + TEN)


@check
async def a_delay_has_bounds(world: World) -> None:
    await world.end(await _running(world, end=START + TEN))
    found = await world.schedule()
    equal((found.next_at, found.awaiting), (None, None))


@check
async def a_pause_during_a_run_keeps_the_end_of_the_run(world: World) -> None:
    job = await _running(world)
    await world.store.schedules.pause("report")
    await world.end(job)
    equal((await world.schedule()).next_at, None, "it is paused")
    world.wait(HOUR)
    resumed = await world.store.schedules.resume("report")
    equal((resumed.next_at, resumed.awaiting), (world.now, None))


@check
async def a_pause_that_ends_by_itself_still_waits_for_the_run(world: World) -> None:
    job = await _running(world)
    await world.store.schedules.pause("report", until=world.now + MINUTE)
    await world.fire_after(2 * MINUTE)
    found = await world.schedule()
    equal((found.pause, found.next_at, found.awaiting), (None, None, job.id))
    await world.end(job)
    equal((await world.schedule()).next_at, world.now + TEN)


@check
async def a_resumed_schedule_still_waits_for_the_run(world: World) -> None:
    job = await _running(world)
    await world.store.schedules.pause("report")
    resumed = await world.store.schedules.resume("report")
    equal((resumed.next_at, resumed.awaiting), (None, job.id))


@check
async def a_changed_delay_still_waits_for_the_run(world: World) -> None:
    job = await _running(world)
    await world.store.schedules.edit("report", lambda old: replace(old, rule="spaced 20m"))
    found = await world.schedule()
    equal((found.next_at, found.awaiting), (None, job.id))
    await world.end(job)
    equal((await world.schedule()).next_at, world.now + 2 * TEN)


@check
async def a_delay_that_becomes_a_rule_waits_for_no_run(world: World) -> None:
    job = await _running(world)
    await world.store.schedules.edit("report", lambda old: replace(old, rule="every 1m"))
    found = await world.schedule()
    equal((found.next_at, found.awaiting), (world.now + MINUTE, None))
    await world.end(job)
    equal((await world.schedule()).next_at, world.now + MINUTE)


@check
async def the_next_run_may_be_skipped_in_advance(world: World) -> None:
    await world.end(await _running(world))
    due = (await world.schedule()).next_at
    equal(await world.store.schedules.skip_next("report"), [due])
    equal(await world.store.schedules.skip_next("report"), [], "there is one moment at a time")
    equal([f for f in await world.fired_after(TEN) if f.outcome == "queued"], [])
    equal((await world.schedule()).next_at, world.now + TEN)
