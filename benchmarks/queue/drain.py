"""How fast a full queue is emptied, by one worker process and by two.

The clock starts when every process is up, connected and stands at the gate with its first batch,
and stops when ``jobs`` more have been finished. Some jobs are left then: how long a project keeps
its last buffer before it writes is no matter of throughput, and what was claimed before the gate
opened is matched by what is claimed and not yet finished at the end.
"""

from time import perf_counter

from benchmarks.queue.contestant import Queue
from benchmarks.queue.crew import crew
from benchmarks.queue.field import Round, fresh_round
from benchmarks.queue.places import Places


async def drain_afresh(places: Places, kind: type[Queue], *, jobs: int, workers: int) -> float:
    async with fresh_round(places, kind) as one:
        return await drain(one, jobs=jobs, workers=workers)


async def drain(one: Round, *, jobs: int, workers: int) -> float:
    """Return the jobs finished a second."""
    jobs //= one.contestant.slowness
    tail = max(500, jobs // 10)
    before = one.watcher.finished()
    await one.fill("nothing", jobs + tail)
    async with crew(one.contestant, workers, gate=True) as processes:
        await processes.gathered()
        goal = processes.started() + jobs
        begin = perf_counter()
        processes.open_the_gate()
        await processes.until(lambda: processes.started() >= goal)
        await processes.until(lambda: not one.watcher.more_than(tail))
        took = perf_counter() - begin
        await processes.until(lambda: not one.watcher.more_than(0))
        if before is not None:  # all of them, and each of them once
            done = before + jobs + tail
            await processes.until(lambda: one.watcher.finished() == done, at_most=5)
    return jobs / took
