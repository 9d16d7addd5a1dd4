"""How late one-off jobs start that are due at moments spread over a minute.

Beside duly: a Redis sorted set that is polled (ZADD, then ZRANGEBYSCORE and ZREMRANGEBYSCORE in one
transaction, as Huey does it; RQ and BullMQ have the same set), once a second as Huey and RQ do by
default, and every ten milliseconds; and a heap in memory, the least that a timer can do. Redis
writes to the disk once a second, and the heap never does; duly does for each batch of jobs.

Each is measured alone, in one process, with all of its jobs stored before the first is due; the CPU
time is that of the process, without Redis and PostgreSQL.
"""

import argparse
import asyncio
import heapq
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from time import perf_counter, process_time

from redis import Redis

from benchmarks.queue.page import replace_part
from benchmarks.schedules import percentile, store_url
from duly import Duly, current
from duly.app import migrate_store
from duly.clock import now
from tests.targets.servers import RedisServer, started

BATCH = 5_000
PATIENCE_SECONDS = 300.0
Lateness = list[timedelta]
pausing = Event()  # never set


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks delayed", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="", help="those whose name contains this text")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    options = parser.parse_args(words)
    asked = f"{options.jobs:,} one-off jobs, due within {options.seconds:g} seconds"
    print(asked)
    rows = ""
    for name, measure in CONTESTANTS.items():
        if options.only not in name:
            continue
        begin = process_time()
        late = measure(options.jobs, options.seconds)
        cpu = process_time() - begin
        middle, high = (percentile(late, share) for share in (0.5, 0.99))
        print(f"{name:36} p50 {middle:8.1f} ms, p99 {high:8.1f} ms, CPU {cpu:.1f} s")
        rows += f"| {name} | {middle:,.1f} | {high:,.1f} | {cpu:.1f} |\n"
    if options.page:
        head = "| | p50, ms | p99, ms | CPU without servers, s |\n| --- | ---: | ---: | ---: |\n"
        day = now().astimezone(UTC).date().isoformat()
        replace_part("delayed", f"Measured on {day}: {asked}.\n\n{head}{rows}")


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


@contextmanager
def stored_in_time(jobs: int) -> Iterator[datetime]:
    """Give the moment at which the first job will be due, after all of them are stored."""
    start = now() + timedelta(seconds=5 + jobs / 4_000)
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


CONTESTANTS: dict[str, Callable[[int, float], Lateness]] = {
    "duly, SQLite": partial(on_duly, "sqlite"),
    "duly, PostgreSQL": partial(on_duly, "postgres"),
    "Redis sorted set, polled every 1 s": partial(on_redis, 1.0),
    "Redis sorted set, polled every 10 ms": partial(on_redis, 0.01),
    "heap in memory": on_a_heap,
}
