"""Limits: never more at once, or in a time, than they say, and no place is ever forgotten."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from duly.model.job import JobRequest, StoredJob
from duly.model.limit import LimitInfo, NamedLimit, Rate
from duly.model.outcome import Raised
from duly.policy.retry import Retry
from tests.conformance.expect import equal
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, World
from tests.factories import call, plan

SECOND = timedelta(seconds=1)
RETRY = Retry(attempts=3, backoff="constant", first="30m", jitter=False).as_json()


def named_limit(
    name: str = "crm", concurrency: int | None = 1, rate: str | None = None, template: str = ""
) -> NamedLimit:
    parsed = Rate.parse(rate) if rate else None
    return NamedLimit(name=name, template=template or name, concurrency=concurrency, rate=parsed)


def limited(*named_limits: NamedLimit, **changes: Any) -> JobRequest:
    return call(limits=named_limits or (named_limit(),), **changes)


async def info(world: World, name: str = "crm") -> LimitInfo:
    return next(found for found in await world.store.limits.listed() if found.name == name)


async def filled(
    world: World, wanted: int = 3, *named_limits: NamedLimit
) -> tuple[StoredJob, list[int]]:
    """A job that runs, and others that wait behind it, in order."""
    numbers = await world.store.jobs.enqueue([limited(*named_limits) for _ in range(wanted)])
    [running] = await world.claim(10)
    equal(running.id, numbers[0])
    return running, numbers[1:]


async def states(world: World, numbers: Sequence[int]) -> list[str]:
    return [str((await world.job(number)).state) for number in numbers]


@check
async def no_more_run_at_once_than_a_limit_says(world: World) -> None:
    wanted = named_limit(concurrency=2)
    numbers = await world.store.jobs.enqueue([limited(wanted) for _ in range(5)])
    equal([job.id for job in await world.claim(10)], numbers[:2])
    equal(await world.claim(10), [])
    equal(await states(world, numbers), ["running"] * 2 + ["blocked"] * 3)
    found = await info(world)
    equal((found.running, found.waiting, found.concurrency), (2, 3, 2))
    parked = await world.job(numbers[2])
    equal((parked.waits, parked.waits_for, parked.reason),
          ("limit", "crm", 'limit "crm" is full: 2 of 2 run'))  # fmt: skip


@check
async def who_leaves_lets_the_next_one_in(world: World) -> None:
    running, waiting = await filled(world, 4)
    for number in waiting:
        await world.end(running)
        [running] = await world.claim(10)
        equal((running.id, running.reason), (number, ""))
        equal((await info(world)).running, 1)


@check
async def names_of_one_template_are_limits_of_their_own(world: World) -> None:
    named_limits = [named_limit(f"crm:{number}", template="crm:{number}") for number in range(3)]
    await world.enqueue(*(limited(one) for one in named_limits))
    equal(len(await world.claim(10)), 3)


@check
async def a_job_that_waits_at_one_limit_holds_no_other(world: World) -> None:
    running, _ = await filled(world, 1)
    both = await world.enqueue(limited(named_limit(), named_limit("disk")))
    equal(await world.claim(10), [])
    other = await world.enqueue(limited(named_limit("disk")))
    [found] = await world.claim(10)
    equal(found.id, other)
    await world.end(running)
    equal(await world.claim(10), [], "it waits at the other one now")
    equal((await world.job(both)).waits_for, "disk")
    await world.end(found)
    equal([job.id for job in await world.claim(10)], [both])
    equal([(await info(world, name)).running for name in ("crm", "disk")], [1, 1])


@check
async def a_place_that_its_next_job_cannot_take_goes_to_another(world: World) -> None:
    """It is set free for one limit, finds the other full, and waits there."""
    disk = await world.enqueue(limited(named_limit("disk")))
    [holder] = await world.claim(10)
    equal(holder.id, disk)
    running, _ = await filled(world, 1)
    both, other = await world.store.jobs.enqueue(
        [limited(named_limit(), named_limit("disk")), limited()]
    )
    equal(await world.claim(10), [])
    await world.end(running)
    equal(await states(world, [both, other]), ["ready", "blocked"])
    found = await world.claim(10) or await world.claim(10)
    equal([job.id for job in found], [other])
    equal((await world.job(both)).waits_for, "disk")


@check
async def those_who_wait_keep_their_order(world: World) -> None:
    running, waiting = await filled(world, 4)
    world.wait(SECOND)
    urgent, late = await world.store.jobs.enqueue([limited(priority=50), limited()])
    equal(await world.claim(10), [])
    order = []
    for _ in range(5):
        await world.end(running)
        [running] = await world.claim(10)
        order.append(running.id)
    equal(order, [urgent, *waiting, late])


@check
async def a_scheduled_job_meets_its_limit_when_it_is_due(world: World) -> None:
    running, _ = await filled(world, 1)
    number = await world.enqueue(limited(run_after=MINUTE))
    world.wait(MINUTE)
    await world.dispatch()
    equal(await world.claim(10), [])
    equal(await states(world, [number]), ["blocked"])
    await world.end(running)
    equal([job.id for job in await world.claim(10)], [number])


@check
async def a_job_that_waits_at_a_limit_is_waited_for_by_its_schedule(world: World) -> None:
    running, _ = await filled(world, 1)
    await world.add(plan(overlap="queue_all", limits=(named_limit(),)))
    await world.fire_after(MINUTE)
    equal(await world.claim(10), [])
    await world.fire_after(MINUTE)
    first, second = sorted((j for j in await world.live() if j.schedule_id), key=lambda j: j.due_at)
    equal([(str(job.state), job.waits) for job in (first, second)],
          [("blocked", "limit"), ("blocked", None)])  # fmt: skip
    equal(await world.store.maintenance.sweep(limit=10), 0)
    await world.end(running)
    [job] = await world.claim(10)
    equal(job.id, first.id)
    await world.end(job)
    equal([job.id for job in await world.claim(10)], [second.id])


@check
async def a_fire_that_skips_minds_a_job_that_waits_at_a_limit(world: World) -> None:
    await filled(world, 1)
    await world.add(plan(limits=(named_limit(),)))
    await world.fire_after(MINUTE)
    equal(await world.claim(10), [])
    [fire] = await world.fired_after(MINUTE)
    equal((str(fire.outcome), str(fire.cause)), ("skipped", "overlap"))


@check
async def a_failed_job_that_is_retried_meets_its_limit_again(world: World) -> None:
    running, [second] = await filled(world, 2)
    await world.end(running, Raised("Oops"))
    equal([job.id for job in await world.claim(10)], [second])
    await world.store.jobs.retry(running.id)
    equal(await world.claim(10), [])
    equal((await world.job(running.id)).waits, "limit")
