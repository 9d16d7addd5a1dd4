"""How fast jobs are promised: one by one, in bulk, and by 32 callers of one process at once."""

import asyncio
from collections.abc import Sequence
from time import perf_counter

from benchmarks.queue.contestant import Producer, Queue
from benchmarks.queue.places import Places

CALLERS = 32


async def enqueue_rates(
    places: Places, kind: type[Queue], *, jobs: int
) -> tuple[float, float, float | None]:
    """Jobs a second: one by one, by 32 callers, in one call where there is such a call."""
    jobs //= kind.slowness
    with places.fresh(kind.database) as place:
        contestant = kind(place)
        await contestant.prepare()
        callers = await contestant.producers(CALLERS)
        try:
            await each(callers, 1)  # connected, and prepared
            single = await rate(callers[:1], jobs // 10)
            many = await rate(callers, jobs // CALLERS)
            bulk = await bulk_rate(callers[0], jobs) if kind.bulk else None
        finally:
            for caller in {id(caller): caller for caller in callers}.values():
                await caller.close()
        return single, many, bulk


async def rate(callers: Sequence[Producer], count: int) -> float:
    begin = perf_counter()
    await each(callers, count)
    return len(callers) * count / (perf_counter() - begin)


async def each(callers: Sequence[Producer], count: int) -> None:
    await asyncio.gather(*(one_after_the_other(caller, count) for caller in callers))


async def one_after_the_other(caller: Producer, count: int) -> None:
    for _ in range(count):
        await caller.enqueue("nothing")


async def bulk_rate(caller: Producer, count: int) -> float:
    begin = perf_counter()
    await caller.enqueue_many("nothing", count)
    return count / (perf_counter() - begin)
