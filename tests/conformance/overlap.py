"""What a fire does when an earlier job of its schedule has not ended, whatever that job does."""

from datetime import timedelta

from duly.model.job import StoredJob
from duly.model.outcome import Raised
from duly.model.policies import Missed, Overlap
from duly.policy.overlap import MOST_QUEUED
from duly.policy.retry import Retry
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan

RETRY = Retry(attempts=3, backoff="constant", first="30m", jitter=False).as_json()


async def _earlier(world: World, overlap: Overlap, state: str) -> StoredJob:
    """A schedule whose first job, of 12:01, is in this state when 12:02 is due."""
    jitter = timedelta(hours=3) if state == "scheduled" else None
    await world.add(plan(overlap=overlap, retry=RETRY, jitter=jitter))
    [fire] = await world.fired_after(MINUTE)
    if state in ("running", "retrying"):
        job = await world.begin()
        if state == "retrying":
            await world.end(job, Raised("Oops"))
    return await world.job(fire.job_id)


async def _waiting_takes_over(world: World, overlap: Overlap, state: str) -> None:
    first = await _earlier(world, overlap, state)
    [fire] = await world.fired_after(MINUTE)
    equal((str(fire.outcome), fire.job_id), ("queued", first.id))
    holds("takes the place" in fire.reason, "it says so")
    older = (await world.fires())[0]
    equal((older.due_at, str(older.outcome), older.job_id), (START + MINUTE, "merged", first.id))
    [job] = await world.live()
    equal((job.id, job.due_at, job.fire_id), (first.id, START + 2 * MINUTE, fire.id))
    equal((job.state, job.ready_at, job.attempt), (first.state, first.ready_at, first.attempt))


async def _skips(world: World, state: str) -> None:
    first = await _earlier(world, "skip", state)
    [fire] = await world.fired_after(MINUTE)
    equal((str(fire.outcome), str(fire.cause), fire.job_id), ("skipped", "overlap", None))
    holds(str(first.id) in fire.reason, "the reason names the job")
    equal(len(await world.live()), 1)


@check
async def skip_skips_while_the_earlier_job_is_ready(world: World) -> None:
    await _skips(world, "ready")


@check
async def skip_skips_while_the_earlier_job_runs(world: World) -> None:
    await _skips(world, "running")


@check
async def skip_skips_while_the_earlier_job_waits_for_its_next_try(world: World) -> None:
    await _skips(world, "retrying")


@check
async def skip_skips_while_the_earlier_job_waits_for_its_moment(world: World) -> None:
    await _skips(world, "scheduled")


@check
async def skip_starts_again_once_the_earlier_job_has_ended(world: World) -> None:
    await _earlier(world, "skip", "ready")
    await world.end(await world.begin())
    [fire] = await world.fired_after(MINUTE)
    equal(str(fire.outcome), "queued")


@check
async def allow_lets_them_run_beside_each_other(world: World) -> None:
    await _earlier(world, "allow", "running")
    await world.fire_after(MINUTE)
    equal(await world.states(), ["running", "ready"])


@check
async def queue_one_waits_behind_the_one_that_runs(world: World) -> None:
    await _earlier(world, "queue_one", "running")
    [fire] = await world.fired_after(MINUTE)
    equal(str(fire.outcome), "queued")
    equal(await world.states(), ["running", "blocked"])
    equal(await world.claim(10), [], "it cannot be claimed")
    holds("waits for" in (await world.job(fire.job_id)).reason, "the job says what it waits for")


@check
async def queue_one_gives_a_ready_job_to_the_newer_moment(world: World) -> None:
    await _waiting_takes_over(world, "queue_one", "ready")


@check
async def queue_one_gives_a_scheduled_job_to_the_newer_moment(world: World) -> None:
    await _waiting_takes_over(world, "queue_one", "scheduled")


@check
async def queue_one_gives_a_retried_job_to_the_newer_moment(world: World) -> None:
    await _waiting_takes_over(world, "queue_one", "retrying")


@check
async def queue_one_lets_only_the_newest_wait(world: World) -> None:
    await _earlier(world, "queue_one", "running")
    for _ in range(3):
        await world.fire_after(MINUTE)
    jobs = await world.live()
    equal([(job.due_at - START, str(job.state)) for job in jobs],
          [(MINUTE, "running"), (4 * MINUTE, "blocked")])  # fmt: skip
    equal([str(f.outcome) for f in await world.fires()],
          ["queued", "merged", "merged", "queued"])  # fmt: skip
    equal({f.job_id for f in (await world.fires())[1:]}, {jobs[1].id})


@check
async def queue_one_lets_only_the_newest_of_an_outage_wait(world: World) -> None:
    await world.add(plan(overlap="queue_one", missed=Missed("all")))
    await world.fire_after(MINUTE)
    await world.begin()
    await world.fire_after(MINUTE)
    await world.fire_after(3 * MINUTE)
    jobs = await world.live()
    equal([(job.due_at - START, str(job.state)) for job in jobs],
          [(MINUTE, "running"), (5 * MINUTE, "blocked")])  # fmt: skip
    fires = await world.fires()
    equal([str(f.outcome) for f in fires], ["queued", "merged", "merged", "merged", "queued"])
    equal(fires[-1].job_id, jobs[1].id)
    equal(jobs[1].fire_id, fires[-1].id)


@check
async def queue_one_makes_one_job_of_an_outage(world: World) -> None:
    await world.add(plan(overlap="queue_one", missed=Missed("all")))
    fired = await world.fired_after(3 * MINUTE)
    equal([str(f.outcome) for f in fired], ["merged", "merged", "queued"])
    [job] = await world.live()
    equal((job.due_at, str(job.state), job.fire_id), (world.now, "ready", fired[-1].id))


@check
async def queue_one_moves_the_deadline_to_the_newer_moment(world: World) -> None:
    await world.add(plan(overlap="queue_one", start_within=HOUR))
    await world.fire_after(MINUTE)
    await world.fire_after(MINUTE)
    equal([job.deadline for job in await world.live()], [world.now + HOUR])


@check
async def queue_all_lines_up_in_the_order_of_the_moments(world: World) -> None:
    await _earlier(world, "queue_all", "running")
    for _ in range(3):
        await world.fire_after(MINUTE)
    equal(await world.states(), ["running", "blocked", "blocked", "blocked"])


@check
async def queue_all_waits_behind_a_job_that_has_not_begun(world: World) -> None:
    for state in ("ready", "retrying"):
        await _earlier(world, "queue_all", state)
        await world.fire_after(MINUTE)
        equal((await world.states())[-1], "blocked", state)
        await world.store.schedules.remove("report")


@check
async def queue_all_has_an_end(world: World) -> None:
    await world.add(plan(overlap="queue_all", missed=Missed("all", at_most=2_000)))
    fired = await world.fired_after(MINUTE * (MOST_QUEUED + 7))
    outcomes = [(str(f.outcome), str(f.cause)) for f in fired]
    equal(outcomes.count(("queued", "None")), MOST_QUEUED)
    equal(outcomes[MOST_QUEUED:], [("skipped", "exhausted")] * 7)
    equal(len(await world.live()), MOST_QUEUED)


@check
async def replace_asks_the_running_job_to_end_and_waits_for_it(world: World) -> None:
    first = await _earlier(world, "replace", "running")
    [fire] = await world.fired_after(MINUTE)
    equal(await world.states(), ["running", "blocked"])
    signals = await world.signals()
    equal(list(signals), [first.id])
    holds("replaced" in signals[first.id], "the signal says why")
    equal((str(fire.outcome), await world.claim(10)), ("queued", []))


@check
async def replace_gives_a_ready_job_to_the_newer_moment(world: World) -> None:
    await _waiting_takes_over(world, "replace", "ready")


@check
async def a_third_fire_takes_the_place_of_the_one_that_waits_to_replace(world: World) -> None:
    first = await _earlier(world, "replace", "running")
    for _ in range(2):
        await world.fire_after(MINUTE)
    jobs = await world.live()
    equal([(job.due_at - START, str(job.state)) for job in jobs],
          [(MINUTE, "running"), (3 * MINUTE, "blocked")])  # fmt: skip
    equal(list(await world.signals()), [first.id])


@check
async def a_manual_run_replaces_too(world: World) -> None:
    first = await _earlier(world, "replace", "running")
    fire = await world.store.schedules.run("report")
    equal(str((await world.job(fire.job_id)).state), "blocked")
    equal(list(await world.signals()), [first.id])


@check
async def schedules_do_not_meet_each_others_jobs(world: World) -> None:
    await world.add(plan("a"), plan("b", rule="every 2m"))
    world.wait(MINUTE)
    await world.fire()
    world.wait(MINUTE)
    await world.fire()
    equal([str(f.outcome) for f in await world.fires("a")], ["queued", "skipped"])
    equal([str(f.outcome) for f in await world.fires("b")], ["queued"])
