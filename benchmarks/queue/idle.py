"""What a worker costs that has nothing to do."""

from dataclasses import dataclass
from time import perf_counter

from benchmarks.queue.contestant import Contestant
from benchmarks.queue.crew import crew
from benchmarks.queue.field import fresh_round
from benchmarks.queue.latency import marked
from benchmarks.queue.places import Places
from duly.clock import sleep


@dataclass(frozen=True, slots=True)
class Idle:
    megabytes: float  # resident
    cpu: float  # per cent of a core


async def idle(places: Places, kind: type[Contestant], *, seconds: float) -> Idle:
    """After one job, so that all it needs is loaded."""
    async with fresh_round(places, kind) as one, crew(one.contestant) as worker:
        await one.producer.enqueue("mark", 0)
        await marked(worker, 1)
        await sleep(12)  # some poll less after a quiet while
        used, begin = worker.cpu_seconds(), perf_counter()
        await sleep(seconds)
        share = (worker.cpu_seconds() - used) / (perf_counter() - begin)
        return Idle(worker.resident_bytes() / 1e6, share * 100)
