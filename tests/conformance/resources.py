"""Jobs that need resources, and what waits elsewhere: they hide nobody."""

from duly.model.limit import Queue
from duly.store.claims import MOST_CANDIDATES
from duly.store.values import CAREFUL
from tests.conformance.expect import equal
from tests.conformance.limits import filled, limited, named_limit, states
from tests.conformance.registry import check
from tests.conformance.world import World
from tests.factories import call


@check
async def jobs_that_wait_elsewhere_hide_nobody(world: World) -> None:
    await filled(world, 1)
    await world.enqueue(*(limited() for _ in range(MOST_CANDIDATES + 5)))
    number = await world.enqueue(limited(named_limit("disk")))
    found = await world.claim(1) or await world.claim(1)
    equal([job.id for job in found], [number])


@check
async def resources_are_respected(world: World) -> None:
    big, small, none = await world.store.jobs.enqueue(
        [call(needs={"gpu": 3}), call(needs={"gpu": 1}), call(needs={"gpu": 1, "disk": 1})]
    )
    equal([job.id for job in await world.claim(10, free={"gpu": 2})], [small])
    equal(await states(world, [big, none]), ["ready"] * 2)
    equal(await world.claim(10), [], "who has none takes none")
    equal([job.id for job in await world.claim(10, free={"gpu": 4, "disk": 1})], [big, none])


@check
async def a_job_that_is_too_large_hides_nobody(world: World) -> None:
    await world.enqueue(*(call(needs={"gpu": 9}) for _ in range(MOST_CANDIDATES + 1)))
    number = await world.enqueue(call(needs={"gpu": 1}))
    equal([job.id for job in await world.claim(1, free={"gpu": 1})], [number])


@check
async def jobs_that_are_too_large_wake_nobody(world: World) -> None:
    """Whoever cannot run them would ask for them again and again, for nothing."""
    await world.enqueue(*(call(needs={"gpu": 9}) for _ in range(MOST_CANDIDATES)))
    request = await world.claim_request(1, shelf=CAREFUL, free={"gpu": 8})
    heard = world.listen()
    equal((await world.store.work.claim(request)).jobs, [])
    equal(heard, [])


@check
async def a_tenant_whose_jobs_are_too_large_takes_no_turns(world: World) -> None:
    await world.store.work.set_queue(Queue(name="default", fair=True))
    await world.enqueue(call(tenant="a", needs={"gpu": 9}), call(tenant="b", needs={"gpu": 1}))
    equal([job.tenant for job in await world.claim(1, free={"gpu": 1})], ["b"])


@check
async def a_job_needs_all_that_it_needs_and_no_more(world: World) -> None:
    names = ['a "quoted" name', "with.dots[0]", "ünïcode", "10"]
    number = await world.enqueue(call(needs=dict.fromkeys(names, 2)))
    for missing in names:
        equal(await world.claim(1, free=dict.fromkeys(names, 2) | {missing: 1}), [], missing)
    equal([job.id for job in await world.claim(1, free=dict.fromkeys(names, 2))], [number])


@check
async def a_job_that_is_too_large_does_not_keep_a_place(world: World) -> None:
    running, _ = await filled(world, 1)
    large, small = await world.store.jobs.enqueue([limited(needs={"gpu": 9}), limited()])
    equal(await world.claim(10, free={"gpu": 9}), [])
    await world.end(running)
    equal(await states(world, [large, small]), ["ready", "blocked"])
    found = await world.claim(10) or await world.claim(10)
    equal([job.id for job in found], [small])


@check
async def only_the_careful_shelf_has_jobs_with_limits(world: World) -> None:
    await world.enqueue(limited(priority=-100), call(needs={"gpu": 1}))
    equal(await world.ready(), [("default", CAREFUL)])
    equal((await world.finish_and_claim(10)).jobs, [], "they are not claimed in passing")
