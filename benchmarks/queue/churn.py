"""What steady work does to a queue: jobs come as fast as a worker takes them, for a long time."""

from dataclasses import dataclass
from time import perf_counter

from benchmarks.queue.contestant import Queue
from benchmarks.queue.crew import Crew, crew
from benchmarks.queue.field import Round, fresh_round
from benchmarks.queue.places import Places
from duly.clock import sleep

# The backlog that is kept up while jobs come and go: the worker never waits for the producer.
BACKLOG = 5_000
BATCH = 1_000

Samples = list[tuple[float, int]]  # the seconds since the beginning, and the jobs done by then


@dataclass(frozen=True, slots=True)
class Churned:
    first: float  # jobs a second in the first minute, or third
    last: float  # … and in the last one
    megabytes: float | None  # of the table of live jobs, at the end


async def churn(places: Places, kind: type[Queue], *, seconds: float) -> Churned:
    """Jobs come as fast as one worker process takes them, for a long time."""
    async with fresh_round(places, kind) as one, crew(one.contestant) as worker:
        await one.fill("nothing", BACKLOG)
        await worker.until(lambda: worker.started() > 0)
        samples, produced = await come_and_go(one, worker, seconds)
        megabytes = one.watcher.megabytes()
        await worker.until(lambda: not one.watcher.more_than(0), look=0.1)
        await worker.until(lambda: one.watcher.finished() == produced, look=0.5, at_most=60)
    span, end = window(seconds), samples[-1][0]
    return Churned(speed(samples, 0, span), speed(samples, end - span, end), megabytes)


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
