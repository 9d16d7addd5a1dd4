"""Fair queues: tenants take turns, however many jobs one of them has."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from duly.model.job import Claimed
from duly.model.limit import Queue
from duly.model.outcome import Raised
from duly.store import work
from duly.store.store import SqlStore
from duly.store.values import CAREFUL, NORMAL
from tests.conformance.expect import equal, holds
from tests.conformance.limits import limited, named_limit
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import World
from tests.factories import call

MANY = 30


async def make_fair(world: World, *, fair: bool = True) -> None:
    await world.store.work.set_queue(Queue(name="default", fair=fair))


async def of_tenants(world: World, tenants: Sequence[str], **changes: Any) -> list[int]:
    return await world.store.jobs.enqueue([call(tenant=tenant, **changes) for tenant in tenants])


class Taker:
    """A worker that remembers whom it served last."""

    def __init__(self, world: World, shelf: int = NORMAL) -> None:
        self.world = world
        self.after = ""
        self.shelf = shelf

    async def take(self, limit: int = 1) -> str:
        """The tenants of the jobs that it claimed."""
        request = await self.world.claim_request(
            limit, shelf=self.shelf, after=self.after, free={"gpu": 99}
        )
        jobs: Sequence[Claimed] = (await self.world.store.work.claim(request)).jobs
        self.after = jobs[-1].tenant if jobs else self.after
        return "".join(job.tenant or "-" for job in jobs)

    async def takes(self, count: int) -> str:
        return "".join([await self.take() for _ in range(count)])


@check
async def tenants_take_turns(world: World) -> None:
    await make_fair(world)
    await of_tenants(world, "aaaaabbcc")
    equal(await Taker(world).takes(9), "abcabcaaa")


@check
async def a_single_job_waits_for_one_turn_at_most(world: World) -> None:
    await make_fair(world)
    await of_tenants(world, ["a"] * MANY)
    taker = Taker(world)
    equal(await taker.takes(3), "aaa")
    await of_tenants(world, ["b"])
    equal(await taker.takes(2), "ba")
    await of_tenants(world, ["0"])
    holds("0" in await taker.takes(2), "one that comes before takes a turn too")


@check
async def every_tenant_has_a_job_in_a_claim_of_many(world: World) -> None:
    await make_fair(world)
    await of_tenants(world, ["a"] * MANY + ["b", "c"])
    taker = Taker(world)
    equal(sorted(set(await taker.take(10))), ["a", "b", "c"])
    equal(await taker.take(10), "a" * 10)


@check
async def no_tenant_is_left_out_where_there_are_more_than_places(world: World) -> None:
    await make_fair(world)
    await of_tenants(world, "abcdefg" * 2)
    taker = Taker(world)
    found = [await taker.take(3) for _ in range(5)]
    equal(found, ["abc", "def", "gab", "cde", "fg"])


@check
async def the_last_of_a_claim_is_of_the_tenant_that_was_served_last(world: World) -> None:
    """However old the jobs are: a worker goes on behind that tenant."""
    await make_fair(world)
    await of_tenants(world, "dcba" * 2)
    taker = Taker(world)
    equal([await taker.take(3) for _ in range(3)], ["abc", "dab", "cd"])


@check
async def whoever_has_no_name_takes_turns_too(world: World) -> None:
    await make_fair(world)
    await of_tenants(world, ["", "", "", "a", "a", "b"])
    equal(await Taker(world).takes(6), "ab-a--")


@check
async def a_tenant_without_a_name_does_not_come_first_for_ever(world: World) -> None:
    await make_fair(world)
    await of_tenants(world, [""] * MANY)
    taker = Taker(world)
    equal(await taker.takes(2), "--")
    await of_tenants(world, ["a"])
    equal(await taker.takes(1), "a")


@check
async def among_the_jobs_of_a_tenant_the_most_urgent_comes_first(world: World) -> None:
    await make_fair(world)
    late, early = await world.store.jobs.enqueue([call(tenant="a"), call(tenant="a", priority=50)])
    equal([job.id for job in await world.claim(1)], [early])
    equal([job.id for job in await world.claim(1)], [late])


@check
async def jobs_that_waited_before_the_queue_became_fair_take_turns(world: World) -> None:
    await of_tenants(world, "aaab")
    await make_fair(world)
    equal(await Taker(world).takes(4), "abaa")


@check
async def a_queue_that_is_fair_no_more_goes_by_age(world: World) -> None:
    await make_fair(world)
    await of_tenants(world, "aaab")
    await make_fair(world, fair=False)
    equal(await Taker(world).takes(4), "aaab")


@check
async def a_job_that_came_while_the_queue_became_fair_is_not_left_behind(world: World) -> None:
    """Whoever enqueued it in a long transaction did not know."""
    await make_fair(world)
    await of_tenants(world, ["a"])
    await _forget_that_they_are_fair(world)
    await of_tenants(world, ["b"] * MANY)
    holds("a" in await Taker(world).takes(2), "it comes")
    equal(await Taker(world).take(2), "bb")


async def _forget_that_they_are_fair(world: World) -> None:
    """As if they had been written while the queue was not fair."""
    for fair in (False, True):
        queue = Queue(name="default", fair=fair)
        await world.database.write(partial(work.set_queue, queue))
        if not fair:
            await world.database.write(partial(work.set_fair, queue, after=0))


@check
async def a_tenant_whose_jobs_nobody_here_can_run_takes_no_turns(world: World) -> None:
    """Else the turn would stop at them, and what lies behind them would starve."""
    await make_fair(world)
    await of_tenants(world, ["a"] * MANY)
    await of_tenants(world, ["b", "c"], task="strange")
    await of_tenants(world, ["d"], priority=-50)
    await of_tenants(world, ["e"])
    equal(await Taker(world).takes(3), "aea")


@check
async def tenants_take_turns_with_jobs_of_several_tasks(world: World) -> None:
    """Each tenant's jobs come in their order, whatever their tasks."""
    await make_fair(world)
    tasks = ["work", "other", "third"]
    calls = [call(tasks[n % 3], tenant=tenant) for tenant in "ab" for n in range(4)]
    numbers = await world.store.jobs.enqueue(calls)
    first = await world.claim(4, tasks=tasks)
    equal([job.id for job in first], [numbers[place] for place in (0, 4, 1, 5)])
    request = replace(await world.claim_request(2, tasks=tasks), after="b")
    second = (await world.store.work.claim(request)).jobs
    equal([job.id for job in second], [numbers[place] for place in (2, 6)])


@check
async def tenants_take_turns_with_jobs_that_need_resources(world: World) -> None:
    await make_fair(world)
    await of_tenants(world, ["a"] * MANY + ["b", ""], needs={"gpu": 1})
    taker = Taker(world, CAREFUL)
    equal(await taker.takes(4), "ab-a")
    await of_tenants(world, ["c"], needs={"gpu": 1})
    equal(await taker.take(4), "caaa")


@check
async def tenants_take_turns_with_jobs_that_have_limits(world: World) -> None:
    await make_fair(world)
    mine, theirs = named_limit("a", 2), named_limit("b", 2)
    await world.enqueue(*(limited(mine, tenant="a") for _ in range(MANY)))
    await world.enqueue(*(limited(theirs, tenant="b") for _ in range(3)))
    equal(await Taker(world, CAREFUL).take(10), "abab")


@check
async def a_retried_job_takes_turns(world: World) -> None:
    await make_fair(world)
    [number] = await of_tenants(world, ["b"])
    await world.end(await world.begin(), Raised("Oops"))
    await of_tenants(world, ["a"] * MANY)
    await world.store.jobs.retry(number)
    equal(await Taker(world).takes(3), "aba")


@check
async def a_backlog_is_told_in_batches_and_only_when_the_queue_changes(world: World) -> None:
    """One statement about all of it would outlast its deadline, and hold every row until then."""
    database = LosingAnswers(world.database)
    told = World(SqlStore(database), world.clock)
    await of_tenants(world, [*["a"] * work.MOST_TOLD, "b"])
    await make_fair(told)
    equal(database.seen["set_fair"], 2)
    equal(await Taker(told).takes(3), "aba")
    await make_fair(told)
    await told.store.work.set_queue(Queue(name="default", fair=True, note="slow today"))
    equal(database.seen["set_fair"], 2, "nothing has changed for them")
    await make_fair(told, fair=False)
    equal(await Taker(told).take(3), "aaa")


@check
async def a_backlog_is_told_though_answers_are_lost(world: World) -> None:
    for statement in ("set_queue", "set_fair"):
        database = LosingAnswers(world.database)
        losing = World(SqlStore(database), world.clock)
        await make_fair(world, fair=False)
        await of_tenants(world, "aaab")
        database.lose(statement)
        await make_fair(losing)
        equal((database.lost, await Taker(world).takes(2)), (1, "ab"), statement)
        for job in await world.claim(10):
            await world.end(job)
