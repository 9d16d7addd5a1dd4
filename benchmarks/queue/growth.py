"""What age does to a queue: a million finished jobs behind it, and minutes of coming and going."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter

from benchmarks.queue.contestant import Contestant
from benchmarks.queue.crew import Crew, crew
from benchmarks.queue.drain import drain
from benchmarks.queue.field import Round, fresh_round
from benchmarks.queue.places import Places
from duly.clock import sleep

# The backlog that is kept up while jobs come and go: the worker never waits for the producer.
BACKLOG = 5_000
BATCH = 1_000

Samples = list[tuple[float, int]]  # the seconds since the beginning, and the jobs done by then


async def old_round(
    stack: AsyncExitStack, places: Places, kind: type[Contestant], *, finished: int
) -> Round:
    """A queue that has finished so many jobs: some were run, and the others are made of them."""
    one = await stack.enter_async_context(fresh_round(places, kind))
    await drain(one, jobs=1, workers=1)
    one.watcher.bury(finished)
    return one


@dataclass(frozen=True, slots=True)
class Churned:
    first: float  # jobs a second in the first minute, or third
    last: float  # … and in the last one


async def churn(places: Places, kind: type[Contestant], *, seconds: float) -> Churned:
    """Jobs come as fast as one worker process takes them, for a long time."""
    async with fresh_round(places, kind) as one, crew(one.contestant) as worker:
        await one.fill("nothing", BACKLOG)
        await worker.until(lambda: worker.started() > 0)
        samples, produced = await come_and_go(one, worker, seconds)
        await worker.until(lambda: not one.watcher.more_than(0), look=0.1)
        await worker.until(lambda: one.watcher.finished() == produced, look=0.5, at_most=60)
    span, end = window(seconds), samples[-1][0]
    return Churned(speed(samples, 0, span), speed(samples, end - span, end))


def window(seconds: float) -> float:
    return min(60.0, seconds / 3)


async def come_and_go(one: Round, worker: Crew, seconds: float) -> tuple[Samples, int]:
    """Keep the backlog up. What was done every half second, and how many came in all."""
    produced, looks, starved = BACKLOG, 0, 0
    begin = perf_counter()
    samples = [(0.0, worker.started())]
    while samples[-1][0] < seconds:
        now, done = perf_counter() - begin, worker.started()
        if now > samples[-1][0] + 0.5:
            samples.append((now, done))
        if produced - done < BACKLOG:
            await one.producer.enqueue_many("nothing", BATCH)
            produced += BATCH
        else:
            worker.check()
            await sleep(0.001)
        looks += 1
        starved += produced - worker.started() < BATCH
    if starved > looks / 10:
        print(f"{one.contestant.name}: the worker was faster than the producer, and waited for it")
    return samples, produced


def speed(samples: Samples, since: float, until: float) -> float:
    inside = [sample for sample in samples if since <= sample[0] <= until]
    (start, before), (end, after) = inside[0], inside[-1]
    return (after - before) / (end - start)
