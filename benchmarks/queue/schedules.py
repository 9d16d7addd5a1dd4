"""How late the runs of a thousand schedules start, each due every five seconds, and the CPU."""

from dataclasses import dataclass
from time import monotonic_ns

from benchmarks.queue.contestant import Scheduler
from benchmarks.queue.crew import crew
from benchmarks.queue.jobs import PERIOD, SCHEDULES
from benchmarks.queue.latency import marked
from benchmarks.queue.places import Places
from duly.clock import sleep

SETTLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Kept:
    late: list[float]  # milliseconds
    cpu: float  # per cent of a core, of all nodes together
    expected: int


async def keep(places: Places, kind: type[Scheduler], *, seconds: float) -> Kept:
    with places.fresh(kind.database) as place:
        contestant = kind(place)
        await contestant.prepare()
        await contestant.schedule()
        async with crew(contestant, kind.nodes) as nodes:
            await marked(nodes, SCHEDULES // 2)
            await sleep(SETTLE_SECONDS)
            used, begin = nodes.cpu_seconds(), monotonic_ns()
            await sleep(seconds)
            used, end = nodes.cpu_seconds() - used, monotonic_ns()
            marks = await marked(nodes, 0)
    took = (end - begin) / 1e9
    late = [(at - due) / 1e6 for due, at in marks if begin <= at < end]
    return Kept(late, used / took * 100, round(SCHEDULES * took / PERIOD.total_seconds()))
