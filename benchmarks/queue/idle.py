"""What a worker costs that has nothing to do."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter

from benchmarks.queue.contestant import Queue
from benchmarks.queue.crew import Crew, crew
from benchmarks.queue.field import Round, fresh_round
from benchmarks.queue.latency import marked
from benchmarks.queue.places import Places
from duly.clock import sleep

QUIET_SECONDS = 12  # some poll less after a quiet while


@dataclass(frozen=True, slots=True)
class Idle:
    megabytes: float  # resident
    cpu: float  # per cent of a core
    transactions: float | None  # a second


async def idle(
    places: Places, kinds: Sequence[type[Queue]], *, seconds: float
) -> Mapping[type[Queue], Idle]:
    """Measure all workers at once, each after one job, so that all it needs is loaded."""
    async with AsyncExitStack() as stack:
        rounds: list[tuple[Round, Crew]] = []
        for kind in kinds:
            one = await stack.enter_async_context(fresh_round(places, kind))
            worker = await stack.enter_async_context(crew(one.contestant))
            await one.producer.enqueue("mark", 0)
            await marked(worker, 1)
            rounds.append((one, worker))
        await sleep(QUIET_SECONDS)
        before = [used(one, worker) for one, worker in rounds]
        await sleep(seconds)
        return {
            kind: compared(worker, then, used(one, worker))
            for kind, (one, worker), then in zip(kinds, rounds, before, strict=True)
        }


Used = tuple[float, float, int | None]  # the time, the seconds of CPU, the transactions


def used(one: Round, worker: Crew) -> Used:
    return perf_counter(), worker.cpu_seconds(), one.watcher.transactions()


def compared(worker: Crew, then: Used, now: Used) -> Idle:
    seconds = now[0] - then[0]
    asked = None if then[2] is None or now[2] is None else (now[2] - then[2] - 1) / seconds
    return Idle(worker.resident_bytes() / 1e6, (now[1] - then[1]) / seconds * 100, asked)
