"""What an operator says about a limit, while jobs run and wait there."""

from duly.model.limit import Rate
from duly.store.limits import MOST_FREED
from tests.conformance.expect import equal
from tests.conformance.limits import filled, info, limited, named_limit
from tests.conformance.registry import check
from tests.conformance.world import World


@check
async def what_an_operator_says_counts_at_once(world: World) -> None:
    running, waiting = await filled(world, 4)
    await world.store.limits.set("crm", concurrency=3, rate=None)
    equal([job.id for job in await world.claim(10)], waiting[:2])
    equal((await info(world)).concurrency, 3)
    await world.store.limits.unset("crm")
    await world.end(running)
    equal(await world.claim(10), [], "two run, and code says one")
    equal((await info(world)).concurrency, 1)


@check
async def what_an_operator_says_is_shown_at_once(world: World) -> None:
    await filled(world, 1)
    await world.store.limits.set("crm", concurrency=7, rate=Rate.parse("9/m"))
    found = await info(world)
    equal((found.concurrency, found.rate), (7, Rate.parse("9/m")))


@check
async def a_name_counts_for_more_than_its_template(world: World) -> None:
    one, two = (named_limit(f"crm:{number}", template="crm:{number}") for number in (1, 2))
    await world.enqueue(*[limited(one) for _ in range(4)], *[limited(two) for _ in range(4)])
    equal(len(await world.claim(10)), 2)
    await world.store.limits.set("crm:{number}", concurrency=2, rate=None)
    equal(len(await world.claim(10)), 2)
    await world.store.limits.set("crm:2", concurrency=4, rate=None)
    equal(len(await world.claim(10)), 2)
    equal([(await info(world, name)).running for name in ("crm:1", "crm:2")], [2, 4])
    await world.store.limits.set("crm:1", concurrency=None, rate=None)
    equal(len(await world.claim(10)), 2, "no limit at all")


@check
async def a_limit_that_is_lowered_lets_nobody_in_until_it_fits(world: World) -> None:
    numbers = await world.store.jobs.enqueue(
        [limited(named_limit(concurrency=4)) for _ in range(6)]
    )
    running = await world.claim(10)
    equal(len(running), 4)
    await world.store.limits.set("crm", concurrency=2, rate=None)
    for job in running[:2]:
        equal(await world.claim(10), [])
        await world.end(job)
    equal(await world.claim(10), [])
    await world.end(running[2])
    equal([job.id for job in await world.claim(10)], [numbers[4]])
    equal((await info(world)).running, 2)


@check
async def a_limit_that_is_raised_far_is_filled(world: World) -> None:
    count = MOST_FREED + 50
    await world.enqueue(*(limited() for _ in range(count)))
    equal(len(await world.claim(1_000)), 1)
    for _ in range(3):
        await world.claim(1_000)
    await world.store.limits.set("crm", concurrency=count, rate=None)
    for _ in range(4):
        await world.claim(1_000)
    equal((await info(world)).running, count)
