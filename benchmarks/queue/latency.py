"""How long a job waits when nothing else does: from the call of enqueue to its first line."""

import random
from time import monotonic, monotonic_ns

from benchmarks.queue.contestant import Queue
from benchmarks.queue.crew import Crew, crew
from benchmarks.queue.field import fresh_round
from benchmarks.queue.jobs import MARKS
from benchmarks.queue.places import Places
from duly.clock import sleep


async def latencies(places: Places, kind: type[Queue], *, jobs: int) -> list[float]:
    """Milliseconds, of jobs that come about every 30 ms, but not in step with any poll."""
    async with fresh_round(places, kind) as one, crew(one.contestant) as worker:
        await one.producer.enqueue("mark", 0)
        await marked(worker, 1)
        await sleep(0.5)  # it has gone to rest
        for _ in range(jobs):
            await sleep(random.uniform(0.01, 0.05))
            await one.producer.enqueue("mark", monotonic_ns())
        marks = await marked(worker, 1 + jobs)
        return [(arrived - sent) / 1e6 for sent, arrived in marks if sent]


async def first_job(places: Places, kind: type[Queue]) -> float:
    """Seconds from the start of a worker process to the first line of a job that waits."""
    async with fresh_round(places, kind) as one:
        await one.producer.enqueue("mark", 0)
        begin = monotonic()
        async with crew(one.contestant) as worker:
            [(_, arrived)] = await marked(worker, 1)
            return arrived / 1e9 - begin


async def marked(worker: Crew, count: int) -> list[tuple[int, int]]:
    """When each job was sent and when it arrived, as soon as there are so many."""
    path = worker.contestant.place.folder / MARKS

    def lines() -> list[str]:
        return path.read_text().splitlines() if path.exists() else []

    await worker.until(lambda: len(lines()) >= count, look=0.02, at_most=60)
    fields = [line.split() for line in lines()]
    return [(int(sent), int(arrived)) for sent, arrived, _ in fields]
