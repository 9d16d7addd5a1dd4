"""A job may have to start within a time of its due time: what is too late is a choice."""

from datetime import timedelta

from duly.model.outcome import Late, Raised
from duly.policy.overlap import HURRIED
from duly.policy.retry import Retry
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan

FIVE = timedelta(minutes=5)
MICROSECOND = timedelta(microseconds=1)


@check
async def a_moment_that_is_found_too_late_is_skipped_and_said_to_be(world: World) -> None:
    await world.add(plan(rule="every 1h", start_within=FIVE))
    [row] = await world.fired_after(HOUR + FIVE + MICROSECOND)
    equal((row.due_at, str(row.outcome), str(row.cause)), (START + HOUR, "skipped", "late"))
    holds("5 minutes" in row.reason, "the reason names the limit")
    equal(await world.live(), [])


@check
async def a_moment_that_is_found_just_in_time_is_run(world: World) -> None:
    await world.add(plan(rule="every 1h", start_within=FIVE))
    [row] = await world.fired_after(HOUR + FIVE)
    equal(str(row.outcome), "queued")
    equal((await world.job(row.job_id)).deadline, START + HOUR + FIVE)


@check
async def of_an_outage_only_what_is_not_too_late_is_merged_or_run(world: World) -> None:
    await world.add(plan(start_within=FIVE))
    await world.fire_after(HOUR)
    equal([(f.due_at - START, f.count, str(f.outcome)) for f in await world.fires()],
          [(HOUR - 6 * MINUTE, 54, "skipped"), (HOUR - MINUTE, 5, "merged"),
           (HOUR, 1, "queued")])  # fmt: skip


@check
async def late_run_has_no_deadline(world: World) -> None:
    await world.add(plan(rule="every 1h", start_within=FIVE, late="run"))
    [row] = await world.fired_after(2 * HOUR - MINUTE)
    job = await world.job(row.job_id)
    equal((str(job.state), job.deadline), ("ready", None))


@check
async def late_hurry_goes_first(world: World) -> None:
    await world.add(plan(rule="every 1h", start_within=FIVE, late="hurry", priority=1))
    [row] = await world.fired_after(2 * HOUR - MINUTE)
    job = await world.job(row.job_id)
    equal((str(job.state), job.priority, job.deadline), ("ready", HURRIED, None))


@check
async def a_job_that_is_not_started_by_its_deadline_expires(world: World) -> None:
    await world.add(plan(rule="every 1h", start_within=FIVE))
    [row] = await world.fired_after(HOUR)
    world.wait(FIVE)
    equal((await world.dispatch()).expired, 0, "the deadline itself is in time")
    world.wait(MICROSECOND)
    equal((await world.dispatch()).expired, 1)
    job = await world.job(row.job_id)
    equal((str(job.state), job.ended_at), ("expired", world.now))
    equal(await world.claim(1), [])


@check
async def the_dispatcher_says_when_the_next_deadline_is(world: World) -> None:
    await world.enqueue(call(start_within=FIVE))
    holds((await world.dispatch()).rest == FIVE, "it rests until the deadline")
    await world.enqueue(call(run_after=MINUTE))
    equal((await world.dispatch()).rest, MINUTE, "or until a job is due, whichever is earlier")
    await world.claim(1)
    equal((await world.dispatch()).rest, MINUTE)
    world.wait(MINUTE)
    await world.dispatch()
    equal((await world.dispatch()).rest, None)


@check
async def a_job_that_is_late_hurries_once(world: World) -> None:
    slow = await world.enqueue(call(title="slow", start_within=FIVE, late="hurry"))
    world.wait(FIVE - MINUTE)
    await world.enqueue(call(title="other", priority=20))
    world.wait(2 * MINUTE)
    done = await world.dispatch()
    equal((done.hurried, done.expired), (1, 0))
    job = await world.job(slow)
    equal((job.priority, job.deadline, str(job.state)), (HURRIED, None, "ready"))
    equal((await world.dispatch()).hurried, 0)
    equal([job.title for job in await world.claim(1)], ["slow"])


@check
async def a_job_that_is_claimed_too_late_ends_as_expired(world: World) -> None:
    number = await world.enqueue(call(start_within=FIVE))
    world.wait(FIVE + MINUTE)
    job = await world.begin()
    equal(job.deadline, START + FIVE, "the worker sees that it is late")
    await world.end(job, Late())
    equal(str((await world.job(number)).state), "expired")


@check
async def a_job_that_began_in_time_is_not_late_for_its_second_attempt(world: World) -> None:
    retry = Retry(attempts=2, backoff="constant", first="10m", jitter=False).as_json()
    number = await world.enqueue(call(start_within=FIVE, retry=retry))
    await world.end(await world.begin(), Raised("Oops"))
    world.wait(2 * FIVE)
    done = await world.dispatch()
    equal((done.ready, done.expired), (1, 0))
    equal(str((await world.job(number)).state), "ready")


@check
async def a_running_job_does_not_expire(world: World) -> None:
    await world.enqueue(call(start_within=FIVE))
    job = await world.begin()
    world.wait(HOUR)
    done = await world.dispatch()
    equal((done.expired, done.rest), (0, None))
    equal((await world.end(job)).kept, [job.id])


@check
async def a_job_that_waits_behind_another_expires_too(world: World) -> None:
    await world.add(plan(overlap="queue_one", start_within=timedelta(seconds=90)))
    await world.fire_after(MINUTE)
    await world.begin()
    await world.fire_after(MINUTE)
    equal(await world.states(), ["running", "blocked"])
    world.wait(2 * MINUTE)
    equal((await world.dispatch()).expired, 1)
    equal(await world.states(), ["running"])
