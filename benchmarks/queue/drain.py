"""How fast a full queue is emptied, by one worker process and by two.

The clock starts when every process is up, connected and stands at the gate with its first batch,
and stops when ``jobs`` more have been finished. Some jobs are left then: how long a project keeps
its last buffer before it writes is no matter of throughput, and what was claimed before the gate
opened is matched by what is claimed and not yet finished at the end.
"""

from dataclasses import dataclass
from time import perf_counter

from benchmarks.queue.contestant import Contestant
from benchmarks.queue.crew import crew
from benchmarks.queue.field import Round, fresh_round
from benchmarks.queue.places import Places


@dataclass(frozen=True, slots=True)
class Drained:
    rate: float  # jobs a second
    cpu: float  # microseconds a job, in the worker processes


async def drain_afresh(
    places: Places, kind: type[Contestant], *, jobs: int, workers: int
) -> Drained:
    async with fresh_round(places, kind) as one:
        return await drain(one, jobs=jobs, workers=workers)


async def drain(one: Round, *, jobs: int, workers: int) -> Drained:
    tail = max(500, jobs // 10)
    before = one.watcher.finished()
    await one.fill("nothing", jobs + tail)
    async with crew(one.contestant, workers, gate=True) as processes:
        await processes.gathered()
        goal = processes.started() + jobs
        used = processes.cpu_seconds()
        begin = perf_counter()
        processes.open_the_gate()
        await processes.until(lambda: processes.started() >= goal)
        await processes.until(lambda: not one.watcher.more_than(tail))
        took = perf_counter() - begin
        used = processes.cpu_seconds() - used
        await processes.until(lambda: not one.watcher.more_than(0))
        if before is not None:  # all of them, and each of them once
            done = before + jobs + tail
            await processes.until(lambda: one.watcher.finished() == done, at_most=5)
    return Drained(jobs / took, used / jobs * 1e6)
