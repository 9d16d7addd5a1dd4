"""How late one-off jobs start that are due at moments spread over a minute.

Beside duly: a Redis sorted set that is polled (ZADD, then ZRANGEBYSCORE and ZREMRANGEBYSCORE in one
transaction, as Huey does it; RQ and BullMQ have the same set), once a second as Huey and RQ do by
default, and every ten milliseconds; and, in memory, a heap and a timing wheel of 512 slots that
turns every ten milliseconds. Redis writes to the disk once a second, and heap and wheel never do;
duly does for each batch of jobs.

All jobs are stored before the first is due. duly is measured alone; the others, which leave the
machine almost idle, each in a process of its own at the same time. The CPU time is that of the
process, without Redis and PostgreSQL.
"""

import argparse
import asyncio
import heapq
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from time import perf_counter, process_time

from redis import Redis

from benchmarks.page import measured, replace_part, rows_of
from benchmarks.schedules import store_url
from duly import Duly, current
from duly.app import migrate_store
from duly.clock import now
from tests.targets.servers import RedisServer, started

BATCH = 5_000
PATIENCE_SECONDS = 300.0
Lateness = list[timedelta]
Measure = Callable[[int, float], Lateness]
pausing = Event()  # never set

STORED_IN_A_SECOND = 4_000  # at least, by each of them
SLOTS = 512
TICK = timedelta(milliseconds=10)


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks delayed", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="", help="those whose name contains this text")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    options = parser.parse_args(words)
    asked = f"{options.jobs:,} one-off jobs, due within {options.seconds:g} seconds"
    print(asked)
    rows = [["", "p50, ms", "p99, ms", "CPU without servers, s"]]
    begin = perf_counter()
    for name, late, cpu in all_measured(options):
        ordered = sorted(one / timedelta(milliseconds=1) for one in late)
        middle, high = (ordered[int(share * (len(late) - 1))] for share in (0.5, 0.99))
        print(f"{name:36} p50 {middle:8.1f} ms, p99 {high:8.1f} ms, CPU {cpu:.1f} s")
        rows.append([name, f"{middle:,.1f}", f"{high:,.1f}", f"{cpu:.1f}"])
    print(f"{perf_counter() - begin:.0f} seconds in all")
    if options.page:
        replace_part("delayed", f"{measured()}, {asked}.\n\n{rows_of(rows, left=1)}")


def all_measured(options: argparse.Namespace) -> Iterator[tuple[str, Lateness, float]]:
    size = options.jobs, options.seconds
    for name, measure in OURS.items():
        if options.only in name:
            yield name, *timed(measure, *size)
    others = {name: measure for name, measure in OTHERS.items() if options.only in name}
    with ProcessPoolExecutor(len(OTHERS), mp_context=get_context("spawn")) as processes:
        asked = {name: processes.submit(timed, one, *size) for name, one in others.items()}
        for name, answer in asked.items():
            yield name, *answer.result()


def timed(measure: Measure, jobs: int, seconds: float) -> tuple[Lateness, float]:
    """Return the lateness of each job and the CPU time of this process."""
    begin = process_time()
    return measure(jobs, seconds), process_time() - begin


def on_duly(kind: str, jobs: int, seconds: float) -> Lateness:
    late: Lateness = []
    with store_url(kind) as url:
        asyncio.run(migrate_store(url))
        duly = Duly(url)

        @duly.task
        async def note() -> None:
            late.append(now() - current().due_at)

        with stored_in_time(jobs) as start:
            for first in range(0, jobs, BATCH):
                duly.enqueue_many(
                    note.using(run_after=at).bind()
                    for at in moments(start, jobs, seconds)[first : first + BATCH]
                )
        with duly.running(concurrency=100):
            wait_for(late, jobs)
        duly.close()
    return late


def on_redis(pause: float, jobs: int, seconds: float) -> Lateness:
    late: Lateness = []
    with tempfile.TemporaryDirectory() as folder, started(RedisServer(Path(folder))) as server:
        redis = Redis.from_url(server.url)
        with stored_in_time(jobs) as start:
            for first in range(0, jobs, BATCH):
                due = moments(start, jobs, seconds)[first : first + BATCH]
                scores = {str(first + each): at.timestamp() for each, at in enumerate(due)}
                redis.zadd("due", scores)
        while len(late) < jobs:
            until = now().timestamp()
            with redis.pipeline(transaction=True) as asked:
                asked.zrangebyscore("due", 0, until, withscores=True)
                asked.zremrangebyscore("due", 0, until)
                found, _ = asked.execute()
            late += [now() - datetime.fromtimestamp(score, UTC) for _, score in found]
            pausing.wait(pause)
        redis.close()
    return late


def on_a_heap(jobs: int, seconds: float) -> Lateness:
    late: Lateness = []
    with stored_in_time(jobs) as start:
        waiting = moments(start, jobs, seconds)
        heapq.heapify(waiting)
    while waiting:
        pausing.wait(max((waiting[0] - now()).total_seconds(), 0))
        late.append(now() - heapq.heappop(waiting))
    return late


def on_a_wheel(jobs: int, seconds: float) -> Lateness:
    """Keep jobs in the slot of their moment, and look into one slot at each tick."""
    late: Lateness = []
    slots: list[list[datetime]] = [[] for _ in range(SLOTS)]
    with stored_in_time(jobs) as start:
        for due in moments(start, jobs, seconds):
            slots[(due - start) // TICK % SLOTS].append(due)
    for turn in count():
        if len(late) == jobs:
            return late
        end = start + (turn + 1) * TICK
        pausing.wait(max((end - now()).total_seconds(), 0))
        found = slots[turn % SLOTS]
        late += [now() - due for due in found if due < end]
        slots[turn % SLOTS] = [due for due in found if due >= end]
    raise AssertionError


@contextmanager
def stored_in_time(jobs: int) -> Iterator[datetime]:
    """Give the moment at which the first job will be due, after all of them are stored."""
    start = now() + timedelta(seconds=5 + jobs / STORED_IN_A_SECOND)
    yield start
    if now() > start:
        raise RuntimeError("storing the jobs took longer than expected: ask for fewer")


def moments(start: datetime, jobs: int, seconds: float) -> list[datetime]:
    return [start + timedelta(seconds=seconds * number / jobs) for number in range(jobs)]


def wait_for(late: Lateness, jobs: int) -> None:
    until = perf_counter() + PATIENCE_SECONDS
    while len(late) < jobs:
        if perf_counter() > until:
            raise RuntimeError(f"{len(late)} of {jobs} jobs have run")
        pausing.wait(0.1)


OURS: dict[str, Measure] = {
    "duly, SQLite": partial(on_duly, "sqlite"),
    "duly, PostgreSQL": partial(on_duly, "postgres"),
}
OTHERS: dict[str, Measure] = {
    "Redis sorted set, polled every 1 s": partial(on_redis, 1.0),
    "Redis sorted set, polled every 10 ms": partial(on_redis, 0.01),
    "timing wheel in memory, 10 ms": on_a_wheel,
    "heap in memory": on_a_heap,
}
