"""A place at a limit is given back, whatever becomes of its job, and goes to the next."""

from duly.model.outcome import Mismatched, Raised, Returned
from duly.policy.limits import PATIENCE
from duly.store.limits import MOST_FREED
from duly.store.maintenance import Retention
from duly.store.values import JobDone
from tests.conformance.expect import equal, holds
from tests.conformance.limits import RETRY, filled, info, limited, named_limit, states
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World


@check
async def a_retry_lets_the_next_one_in_meanwhile(world: World) -> None:
    first, second = await world.store.jobs.enqueue([limited(retry=RETRY), limited()])
    [job] = await world.claim(10)
    await world.end(job, Raised("Oops"))
    equal(await states(world, [first, second]), ["scheduled", "ready"])
    equal([job.id for job in await world.claim(10)], [second])
    world.wait(HOUR)
    await world.dispatch()
    equal(await world.claim(10), [], "and finds its place taken")
    equal((await world.job(first)).waits, "limit")


@check
async def a_job_that_is_given_back_gives_its_place_back(world: World) -> None:
    running, waiting = await filled(world, 2)
    await world.end(running, Returned())
    equal((await info(world)).running, 0)
    equal([job.id for job in await world.claim(10)], [running.id], "it is still the first")
    equal(await states(world, waiting), ["blocked"])


@check
async def a_job_whose_arguments_do_not_fit_gives_its_place_back(world: World) -> None:
    running, waiting = await filled(world, 2)
    await world.end(running, Mismatched("it wants two", signature="x"))
    equal([job.id for job in await world.claim(10)], waiting)


@check
async def who_can_go_on_is_told(world: World) -> None:
    told = world.listen()
    await world.enqueue(limited(), limited(queue="other"))
    job = await world.begin()
    equal(await world.claim(10, queue="other"), [])
    told.clear()
    await world.end(job)
    holds("ready:other" in told, "the queue of the one that waited")
    paced = named_limit("paced", None, "1/m")
    await world.enqueue(limited(paced), limited(paced))
    told.clear()
    equal(len(await world.claim(10)), 1)
    equal(told, ["jobs"], "the dispatcher, who lets the next one in")


@check
async def who_can_go_on_because_another_came_too_late_is_told(world: World) -> None:
    await world.enqueue(limited(), limited(start_within=MINUTE), limited(queue="other"))
    job = await world.begin()
    equal([await world.claim(10), await world.claim(10, queue="other")], [[], []])
    await world.end(job)
    world.wait(2 * MINUTE)
    told = world.listen()
    equal((await world.dispatch()).expired, 1)
    holds("ready:other" in told, f"of {told}")


@check
async def a_lost_job_gives_its_place_back(world: World) -> None:
    running, waiting = await filled(world, 2)
    equal((await world.lose(running)).lost, 1)
    equal((await info(world)).running, 0)
    equal(len(await world.claim(10)), 1)
    equal(sorted(await states(world, [running.id, *waiting])), ["blocked", "running"])


@check
async def a_parked_job_can_be_cancelled(world: World) -> None:
    running, [second, third] = await filled(world, 3)
    await world.store.jobs.cancel(second)
    await world.end(running)
    equal([job.id for job in await world.claim(10)], [third])
    equal((await info(world)).waiting, 0)


@check
async def the_place_of_a_job_that_is_cancelled_before_it_comes_goes_to_the_next(
    world: World,
) -> None:
    running, [second, third] = await filled(world, 3)
    await world.end(running)
    equal(await states(world, [second, third]), ["ready", "blocked"])
    await world.store.jobs.cancel(second)
    equal(await states(world, [third]), ["ready"])


@check
async def the_place_of_a_job_that_expires_before_it_comes_goes_to_the_next(world: World) -> None:
    await world.enqueue(limited())
    running = await world.begin()
    late, other = await world.store.jobs.enqueue([limited(start_within=MINUTE), limited()])
    equal(await world.claim(10), [])
    await world.end(running)
    equal(await states(world, [late, other]), ["ready", "blocked"])
    world.wait(2 * MINUTE)
    equal((await world.dispatch()).expired, 1)
    equal([job.id for job in await world.claim(10)], [other])


@check
async def a_parked_job_that_is_moved_by_its_key_is_another_promise(world: World) -> None:
    running, _ = await filled(world, 1)
    number = await world.enqueue(limited(key="k"))
    equal(await world.claim(10), [])
    equal(await world.enqueue(limited(named_limit("disk"), key="k")), number)
    [job] = await world.claim(10)
    equal((job.id, job.waits, [one.name for one in job.limits]), (number, None, ["disk"]))
    await world.end(running)
    await world.end(job)
    equal([found.waiting for found in await world.store.limits.listed()], [0, 0])


@check
async def the_place_of_a_job_that_is_moved_before_it_comes_goes_to_the_next(world: World) -> None:
    running, _ = await filled(world, 1)
    moved, other = await world.store.jobs.enqueue([limited(key="k"), limited()])
    equal(await world.claim(10), [])
    await world.end(running)
    equal(await states(world, [moved, other]), ["ready", "blocked"])
    await world.enqueue(limited(key="k", run_after=HOUR))
    world.wait(PATIENCE)
    await world.dispatch()
    equal([job.id for job in await world.claim(10)], [other])


@check
async def the_place_of_a_job_that_nobody_knows_goes_to_others(world: World) -> None:
    """However many such jobs wait before them."""
    await world.enqueue(limited())
    running = await world.begin()
    strangers = [limited(task="strange", priority=9) for _ in range(MOST_FREED + 20)]
    await world.enqueue(*strangers)
    equal(await world.claim(200, tasks=["strange"]), [])
    number = await world.enqueue(limited())
    equal(await world.claim(10), [])
    await world.end(running)
    for _ in range(4):
        world.wait(PATIENCE)
        await world.dispatch()
    equal([job.id for job in await world.claim(10)], [number])


@check
async def a_paused_queue_does_not_keep_a_place_from_others(world: World) -> None:
    running, _ = await filled(world, 1)
    await world.enqueue(*(limited(queue="bulk") for _ in range(5)))
    equal(await world.claim(10, queue="bulk"), [])
    number = await world.enqueue(limited())
    equal(await world.claim(10), [])
    await world.end(running)
    world.wait(PATIENCE)
    await world.dispatch()
    equal([job.id for job in await world.claim(10)], [number])


@check
async def a_limit_that_is_in_use_is_not_forgotten(world: World) -> None:
    running, _ = await filled(world, 2)
    await world.enqueue(limited(named_limit("idle")))
    await world.end(await world.begin())
    world.wait(3 * HOUR)
    await world.store.maintenance.prune(Retention(), limit=100)
    equal([(found.name, found.running, found.waiting) for found in
           await world.store.limits.listed()], [("crm", 1, 1)])  # fmt: skip
    await world.end(running)
    equal(len(await world.claim(10)), 1)


@check
async def a_worker_without_a_lease_takes_no_place(world: World) -> None:
    number = await world.enqueue(limited())
    dead = await world.new_worker()
    world.wait(HOUR)
    equal(await world.claim(10, worker=dead), [])
    equal((await info(world)).running, 0)
    equal([job.id for job in await world.claim(10)], [number])


@check
async def places_of_jobs_that_do_not_run_are_found_by_the_net(world: World) -> None:
    running, waiting = await filled(world, 2)
    await world.finish_and_claim(1, JobDone(running.id, running.fence))  # as if it were a plain one
    equal((await info(world)).running, 1)
    await world.store.maintenance.sweep(limit=10)
    equal([job.id for job in await world.claim(10)], waiting)
