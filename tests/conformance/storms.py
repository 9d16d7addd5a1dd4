"""Limits under all that can happen to jobs, by chance."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from duly.model.job import StoredJob
from duly.model.limit import NamedLimit
from duly.model.outcome import Raised, Returned
from tests.conformance.expect import equal, holds
from tests.conformance.limits import RETRY, SECOND, limited, named_limit
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, World


@check
async def whatever_happens_no_limit_is_exceeded_and_nobody_is_forgotten(world: World) -> None:
    for seed in range(6):
        await _storm(world, random.Random(seed))


async def _storm(world: World, dice: random.Random) -> None:
    named_limits = [
        named_limit("a", 1),
        named_limit("b", 2),
        named_limit("c", 3, "2/s"),
        named_limit("d", None, "1/s"),
    ]
    running: list[StoredJob] = []
    for _ in range(60):
        match dice.randrange(8):
            case 0 | 1:
                chosen = dice.sample(named_limits, dice.randint(1, 2))
                await world.enqueue(limited(*chosen, retry=RETRY, priority=dice.choice([0, 5])))
            case 2 | 3:
                running += await world.claim(dice.randint(1, 3))
            case 4 if running:
                job = running.pop(dice.randrange(len(running)))
                await world.end(job, dice.choice([None, Raised("Oops"), Returned()]))
            case 5 if live := [job for job in await world.live() if job.state != "running"]:
                await world.store.jobs.cancel(dice.choice(live).id)
            case 6 if running:
                await world.lose(running[0])
                running = []
            case _:
                world.wait(dice.choice([1, 300, 1_000]) * timedelta(milliseconds=1))
                await world.dispatch()
        await _is_true(world, named_limits)
    for _ in range(200):
        for job in running:
            await world.end(job)
        world.wait(dice.choice([SECOND, MINUTE]))
        await world.dispatch()
        running = await world.claim(100)
        await _is_true(world, named_limits)
        if not running and not await world.live():
            return
    equal([(str(job.state), job.reason) for job in await world.live()], [], "they are forgotten")


async def _is_true(world: World, named_limits: Sequence[NamedLimit]) -> None:
    running = Counter(
        one.name for job in await world.live() if job.state == "running" for one in job.limits
    )
    for found in await world.store.limits.listed():
        equal(found.running, running[found.name], f"in {found.name}")
    for one in named_limits:
        holds(one.concurrency is None or running[one.name] <= one.concurrency, f"{one.name} fits")
