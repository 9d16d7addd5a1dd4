"""Rates: so many in a time, whoever waits, and however often somebody looks."""

from datetime import timedelta

from duly.model.limit import Rate
from duly.policy.limits import PATIENCE
from duly.store.maintenance import Retention
from tests.conformance.expect import equal, holds
from tests.conformance.limits import SECOND, limited, named_limit
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World


@check
async def nobody_overtakes_those_who_wait(world: World) -> None:
    await world.enqueue(*(limited(named_limit(concurrency=None, rate="1/m")) for _ in range(2)))
    [first] = await world.claim(10)
    world.wait(MINUTE)
    newcomer = await world.enqueue(limited(named_limit(concurrency=None, rate="1/m")))
    found = await world.claim(10) or await world.claim(10)
    holds(found and found[0].id not in (first.id, newcomer), "the one that waited comes first")
    equal(len(found), 1)


@check
async def whoever_claims_lets_its_own_in_first(world: World) -> None:
    """And not those of a queue that is paused, who have waited longer."""
    paced = named_limit(concurrency=None, rate="1/m")
    await world.enqueue(limited(paced))
    await world.begin()
    await world.enqueue(limited(paced, queue="bulk"))
    equal(await world.claim(10, queue="bulk"), [])
    own = await world.enqueue(limited(paced))
    equal(await world.claim(10), [])
    world.wait(MINUTE)
    await world.enqueue(limited(paced))
    found = await world.claim(10) or await world.claim(10)
    equal([job.id for job in found], [own])


@check
async def a_rate_lets_so_many_through_in_a_time(world: World) -> None:
    wanted = named_limit(concurrency=None, rate="3/m")
    numbers = await world.store.jobs.enqueue([limited(wanted) for _ in range(7)])
    begun: list[tuple[int, timedelta]] = []
    start = world.now
    for _ in range(140):
        await world.dispatch()
        begun += [(job.id, world.now - start) for job in await world.claim(10)]
        world.wait(SECOND)
    equal([number for number, _ in begun], numbers)
    equal([at for _, at in begun], [n * 20 * SECOND for n in range(7)])


@check
async def the_dispatcher_rests_until_a_rate_lets_the_next_one_in(world: World) -> None:
    await world.enqueue(*(limited(named_limit(concurrency=None, rate="3/m")) for _ in range(3)))
    [first] = await world.claim(10)
    equal((await world.dispatch()).rest, 20 * SECOND)
    world.wait(20 * SECOND)
    done = await world.dispatch()
    equal((done.ready, done.rest), (1, PATIENCE))
    [second] = await world.claim(10)
    world.wait(PATIENCE)
    await world.dispatch()
    equal((await world.dispatch()).rest, 20 * SECOND - PATIENCE)
    await world.end(first)
    await world.end(second)
    world.wait(20 * SECOND)
    await world.dispatch()
    await world.claim(10)
    world.wait(MINUTE)
    await world.dispatch()
    equal((await world.dispatch()).rest, None, "nobody waits any more")


@check
async def the_dispatcher_does_not_wait_for_a_full_limit(world: World) -> None:
    """Whoever leaves it looks, and then the rate may be what keeps the next one out."""
    both = named_limit(concurrency=1, rate="1/m")
    await world.enqueue(*(limited(both) for _ in range(3)))
    [first] = await world.claim(10)
    world.wait(2 * MINUTE)
    await world.dispatch()
    equal((await world.dispatch()).rest, None, "the rate is open, and the place is taken")
    await world.end(first)
    [second] = await world.claim(10)
    await world.end(second)
    equal(await world.claim(10), [])
    world.wait(PATIENCE)
    await world.dispatch()
    equal((await world.dispatch()).rest, MINUTE - PATIENCE)
    world.wait(MINUTE - PATIENCE)
    await world.dispatch()
    equal(len(await world.claim(10)), 1)


@check
async def a_rate_is_remembered_for_as_long_as_it_counts(world: World) -> None:
    daily = named_limit(concurrency=None, rate="1/d")
    await world.enqueue(limited(daily))
    await world.end(await world.begin())
    world.wait(3 * HOUR)
    await world.store.maintenance.prune(Retention(), limit=100)
    await world.enqueue(limited(daily))
    equal(await world.claim(10), [])
    world.wait(24 * HOUR)
    await world.dispatch()
    await world.end(await world.begin())
    world.wait(72 * HOUR)
    await world.store.maintenance.prune(Retention(), limit=100)
    equal(await world.store.limits.listed(), [], "and is forgotten then")


@check
async def another_rate_counts_at_once(world: World) -> None:
    wanted = named_limit(concurrency=None, rate="1/d")
    await world.enqueue(*(limited(wanted) for _ in range(3)))
    equal(len(await world.claim(10)), 1)
    await world.store.limits.set("crm", concurrency=None, rate=Rate.parse("1/s"))
    equal(await world.claim(10), [], "one has just come")
    for _ in range(2):
        world.wait(SECOND)
        await world.dispatch()
        equal(len(await world.claim(10)), 1)
