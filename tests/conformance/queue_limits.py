"""Queues with limits of their own: so many at once, so many in a time, or none at all."""

from datetime import timedelta

from duly.model.job import StoredJob
from duly.model.limit import Queue, Rate
from duly.model.outcome import Raised
from duly.store.values import LOW, NORMAL, Claims
from tests.conformance.expect import equal, holds
from tests.conformance.limits import RETRY, SECOND, limited, named_limit
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call


async def set_queue(world: World, name: str = "default", **changes: object) -> None:
    rate = changes.pop("rate", None)
    parsed = Rate.parse(rate) if isinstance(rate, str) else None
    await world.store.work.set_queue(Queue(name=name, rate=parsed, **changes))  # type: ignore[arg-type]


async def running(world: World, queue: str = "default") -> list[StoredJob]:
    return [job for job in await world.live() if job.state == "running" and job.queue == queue]


@check
async def no_more_of_a_queue_run_at_once_than_it_says(world: World) -> None:
    await set_queue(world, concurrency=3)
    numbers = await world.store.jobs.enqueue([call() for _ in range(6)])
    begun = await world.claim(2) + await world.claim(10)
    equal([job.id for job in begun], numbers[:3])
    equal(await world.claim(10), [])
    await world.end(begun[1])
    equal([job.id for job in await world.claim(10)], numbers[3:4])


@check
async def jobs_of_every_kind_count_for_their_queue(world: World) -> None:
    await set_queue(world, concurrency=2)
    await world.enqueue(call(priority=-100), limited(), call(needs={"gpu": 1}), call())
    equal(len(await world.claim(10, free={"gpu": 1})), 2)
    equal(await world.claim(10, free={"gpu": 1}), [])


@check
async def a_queue_limit_is_for_one_queue(world: World) -> None:
    await set_queue(world, concurrency=1)
    await world.enqueue(*(call() for _ in range(2)), *(call(queue="other") for _ in range(2)))
    equal(len(await world.claim(10)), 1)
    equal(len(await world.claim(10, queue="other")), 2)


@check
async def a_limited_queue_is_not_claimed_from_in_passing(world: World) -> None:
    for changes in ({"concurrency": 5}, {"rate": "5/s"}, {"fair": True}, {"paused": True}):
        await set_queue(world, **changes)
        number = await world.enqueue(call())
        equal((await world.finish_and_claim(10)).jobs, [], f"{changes}")
        await set_queue(world)
        equal(
            [job.id for job in (await world.finish_and_claim(10)).jobs], [number], "a plain one is"
        )


@check
async def a_retry_does_not_count_for_its_queue_meanwhile(world: World) -> None:
    await set_queue(world, concurrency=1)
    await world.enqueue(call(retry=RETRY), call())
    await world.end(await world.begin(), Raised("Oops"))
    equal(len(await world.claim(10)), 1)


@check
async def a_lost_job_does_not_count_for_its_queue(world: World) -> None:
    await set_queue(world, concurrency=1)
    await world.enqueue(call())
    job = await world.begin()
    await world.lose(job)
    equal([again.id for again in await world.claim(10)], [job.id])


@check
async def a_queue_limit_that_is_lowered_lets_nobody_in_until_it_fits(world: World) -> None:
    await world.enqueue(*(call() for _ in range(5)))
    begun = await world.claim(3)
    await set_queue(world, concurrency=2)
    equal(await world.claim(10), [])
    await world.end(begun[0])
    equal(await world.claim(10), [])
    await world.end(begun[1])
    equal(len(await world.claim(10)), 1)


@check
async def a_queue_limit_that_is_raised_counts_at_once(world: World) -> None:
    await set_queue(world, concurrency=1)
    await world.enqueue(*(call() for _ in range(5)))
    equal(len(await world.claim(10)), 1)
    await set_queue(world, concurrency=3)
    equal(len(await world.claim(10)), 2)


@check
async def the_rate_of_a_queue_is_kept(world: World) -> None:
    await set_queue(world, rate="3/m")
    numbers = await world.store.jobs.enqueue([call() for _ in range(5)])
    begun: list[tuple[int, timedelta]] = []
    start = world.now
    for _ in range(90):
        begun += [(job.id, world.now - start) for job in await world.claim(10)]
        world.wait(SECOND)
    equal(begun, [(number, n * 20 * SECOND) for n, number in enumerate(numbers)])


@check
async def a_queue_saves_nothing_up(world: World) -> None:
    await set_queue(world, rate="3/m")
    world.wait(HOUR)
    await world.enqueue(*(call() for _ in range(5)))
    equal(len(await world.claim(10)), 1)


@check
async def another_rate_of_a_queue_counts_at_once(world: World) -> None:
    await set_queue(world, rate="1/d")
    await world.enqueue(*(call() for _ in range(3)))
    equal(len(await world.claim(10)), 1)
    await set_queue(world, rate="1/s")
    equal(await world.claim(10), [], "one has just come")
    for _ in range(2):
        world.wait(SECOND)
        equal(len(await world.claim(10)), 1)


@check
async def both_limits_of_a_queue_count(world: World) -> None:
    await set_queue(world, concurrency=1, rate="1/m")
    await world.enqueue(*(call() for _ in range(3)))
    first = await world.begin()
    world.wait(MINUTE)
    equal(await world.claim(10), [], "one runs")
    await world.end(first)
    await world.end(await world.begin())
    equal(await world.claim(10), [], "one has just come")


@check
async def a_queue_that_is_changed_keeps_count(world: World) -> None:
    """Pausing it is no way around its rate."""
    await set_queue(world, rate="1/m")
    await world.enqueue(*(call() for _ in range(2)))
    await world.begin()
    await set_queue(world, rate="1/m", paused=True)
    await set_queue(world, rate="1/m")
    equal(await world.claim(10), [])


@check
async def nothing_is_claimed_from_a_paused_queue(world: World) -> None:
    await set_queue(world, paused=True, note="closed")
    await world.enqueue(call(), limited(), call(priority=-100))
    equal((await world.claim(10), (await world.finish_and_claim(10)).jobs), ([], []))
    equal([job.state for job in await world.live()], ["ready"] * 3)
    await set_queue(world)
    equal(len(await world.claim(10)), 3)


@check
async def a_job_counts_for_its_queue_and_its_limit(world: World) -> None:
    await set_queue(world, concurrency=2)
    await world.enqueue(*(limited(named_limit(concurrency=3)) for _ in range(5)))
    begun = await world.claim(10)
    equal(len(begun), 2)
    equal([job.state for job in await world.live() if job.state == "blocked"], [])
    await world.enqueue(*(limited(named_limit(concurrency=3), queue="other") for _ in range(5)))
    equal(len(await world.claim(10, queue="other")), 1, "one place is left")
    await world.end(begun[0])
    found = await world.claim(10)
    equal(len(found) + len(await world.claim(10, queue="other")), 1)
    holds(len(await running(world)) <= 2, "the queue fits")


@check
async def a_full_queue_does_not_keep_a_place_from_others(world: World) -> None:
    """Jobs of it wait at a limit before those of a queue in which there is room."""
    await set_queue(world, "bulk", concurrency=1)
    await world.enqueue(limited(named_limit(concurrency=2)), limited(named_limit(concurrency=2)))
    one, two = await world.claim(10)
    await world.enqueue(*(limited(named_limit(concurrency=2), queue="bulk") for _ in range(4)))
    equal(await world.claim(10, queue="bulk"), [])
    number = await world.enqueue(limited(named_limit(concurrency=2)))
    equal(await world.claim(10), [])
    await world.end(one)
    equal(len(await world.claim(10, queue="bulk")), 1)
    await world.end(two)
    for _ in range(3):
        world.wait(2 * SECOND)
        await world.dispatch()
    equal([job.id for job in await world.claim(10)], [number])


@check
async def it_is_told_where_there_is_something_to_claim(world: World) -> None:
    equal(await world.ready("default", "other"), [])
    await world.enqueue(call(), call(queue="other", priority=-50), call(queue="third"))
    equal(await world.ready("default", "other"), [("default", NORMAL), ("other", LOW)])


@check
async def a_claim_says_that_as_many_run_as_may(world: World) -> None:
    await set_queue(world, concurrency=2)
    await world.enqueue(*(call() for _ in range(3)))
    request = await world.claim_request(1)
    for _ in range(2):
        claims = await world.store.work.claim(request)
        equal((len(claims.jobs), claims.full), (1, False), "that was all that was wished")
    claims = await world.store.work.claim(request)
    equal((claims.jobs, claims.full, claims.opens_in), ([], True, None))
    await world.end((await running(world))[0])
    claims = await world.store.work.claim(await world.claim_request(2))
    equal((len(claims.jobs), claims.full, claims.opens_in), (1, True, None))


@check
async def a_claim_says_when_the_rate_lets_the_next_through(world: World) -> None:
    await set_queue(world, rate="3/m")
    await world.enqueue(*(call() for _ in range(3)))
    request = await world.claim_request(10)
    claims = await world.store.work.claim(request)
    equal((len(claims.jobs), claims.full, claims.opens_in), (1, True, 20 * SECOND))
    world.wait(5 * SECOND)
    claims = await world.store.work.claim(request)
    equal((claims.jobs, claims.full, claims.opens_in), ([], True, 15 * SECOND))
    world.wait(15 * SECOND)
    equal(len((await world.store.work.claim(request)).jobs), 1, "and then it does")


@check
async def a_queue_that_is_full_opens_when_one_ends_whatever_its_rate(world: World) -> None:
    await set_queue(world, concurrency=1, rate="3/m")
    await world.enqueue(*(call() for _ in range(3)))
    claims = await world.store.work.claim(await world.claim_request(10))
    equal((len(claims.jobs), claims.full, claims.opens_in), (1, True, None))


@check
async def a_queue_in_which_nothing_waits_is_not_full(world: World) -> None:
    await set_queue(world, concurrency=3, rate="100/s")
    await world.enqueue(call())
    claims = await world.store.work.claim(await world.claim_request(10))
    equal((len(claims.jobs), claims.full, claims.opens_in), (1, False, None))
    await set_queue(world)
    request = await world.claim_request(10)
    equal(await world.store.work.claim(request), Claims(jobs=[]))
    await set_queue(world, paused=True)
    equal(await world.store.work.claim(request), Claims(jobs=[]), "but paused")
