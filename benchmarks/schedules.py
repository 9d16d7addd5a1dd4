"""How late schedules fire, how many fire in a second, and what a million idle ones cost.

Each figure stands beside another one of the same run: APScheduler's lateness on the same machine,
the raw insert of as many rows, the tick over a small table.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from duly.app import connect, migrate_store, open_store
from duly.clock import now, sleep
from duly.model.job import JobRequest
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan
from duly.model.states import State
from duly.policy.firing import decide
from duly.store.store import Store
from tests.infrastructure.cluster import installed_programs, running_cluster

SCHEDULES = 1_000
PERIOD = timedelta(seconds=5)
SECONDS = 20
ALLOW = Policies(overlap="allow", missed=Missed("all", at_most=1_000))


def main() -> None:
    for kind in ("sqlite", "postgres"):
        with store_url(kind) as url:
            asyncio.run(lateness(kind, url))
        with store_url(kind) as url:
            asyncio.run(rates(kind, url))
    peer_lateness()


@contextmanager
def store_url(kind: str) -> Iterator[str]:
    """A new store whose commits wait for the disk."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "duly.db")
        return
    *_, programs = installed_programs().values()
    with running_cluster(programs, durable=True) as cluster:
        yield cluster.dsn


async def lateness(kind: str, url: str) -> None:
    """A thousand schedules, every five seconds, spread over the five; two nodes run their jobs."""
    await migrate_store(url)
    store = await open_store(url)
    start = now().replace(microsecond=0) - timedelta(minutes=1)
    await store.schedules.add([spread(number, start) for number in range(SCHEDULES)])
    nodes = [node(url) for _ in range(2)]
    await sleep(2)
    since, before = now(), sum(map(cpu_seconds, nodes))
    await sleep(SECONDS)
    until, cpu = now(), (sum(map(cpu_seconds, nodes)) - before) / SECONDS
    for one in nodes:
        one.kill()
        one.wait()
    decided = []
    for number in range(SCHEDULES):
        name = f"schedule {number}"
        fires = await store.ledger.fires(name, since=since, until=until - timedelta(seconds=0.5))
        decided += [fire.decided_at - fire.due_at for fire in fires]
    ended = await store.jobs.ended(State.SUCCEEDED, since=since, limit=100_000)
    started = [
        job.claimed_at - job.due_at for job in ended if job.claimed_at and job.due_at > since
    ]
    await store.close()
    due = SCHEDULES * int(SECONDS / PERIOD.total_seconds())
    print(
        f"{kind:9} {SCHEDULES} schedules every 5 s, two nodes: {len(decided)} of about {due} fired "
        f"({in_short(decided)}), {len(started)} jobs done ({in_short(started)} until claimed), "
        f"CPU {cpu:.0%} of a core for both"
    )


def in_short(late: list[timedelta]) -> str:
    return f"p50 {percentile(late, 0.5):.1f} ms, p99 {percentile(late, 0.99):.1f} ms"


def node(url: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "benchmarks.node", url])


def spread(number: int, start: datetime) -> Plan:
    at = start + number * PERIOD / SCHEDULES
    rule = f"every 5s from {at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}"
    return Plan(name=f"schedule {number}", rule=rule, task="nothing", policies=ALLOW)


def cpu_seconds(process: "subprocess.Popen[bytes]") -> float:
    """The seconds of CPU that a process has taken so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def percentile(late: list[timedelta], share: float) -> float:
    ordered = sorted(late)
    return ordered[int(share * (len(ordered) - 1))] / timedelta(milliseconds=1)


async def rates(kind: str, url: str) -> None:
    await migrate_store(url)
    store = connect(url)
    await store.open()
    begin = perf_counter()
    plans = [
        Plan(name=f"herd {n}", rule="every 1h", task="nothing", policies=ALLOW)
        for n in range(10_000)
    ]
    await store.schedules.add(plans)
    print(f"{kind:9} 10,000 schedules added in {perf_counter() - begin:.2f} s")
    await store.close()
    ahead = connect(url, clock=lambda: now() + timedelta(hours=1))
    await ahead.open()
    begin = perf_counter()
    fired = await drained(ahead)
    took = perf_counter() - begin
    await ahead.close()
    print(f"{kind:9} {fired} due at once, fired in {took:.2f} s: {fired / took:,.0f} a second")
    store = connect(url)
    await store.open()
    small = await idle_tick(store)
    for _ in range(99):
        plans = [
            Plan(name=f"idle {_}/{n}", rule="every 24h", task="nothing", policies=ALLOW)
            for n in range(10_000)
        ]
        await store.schedules.add(plans)
    large = await idle_tick(store)
    print(
        f"{kind:9} a tick with nothing due: {large * 1e3:.2f} ms with 1,000,000 schedules, "
        f"{small * 1e3:.2f} ms with 10,000: ratio {large / small:.2f}"
    )
    await enqueue_rate(kind, store)
    await store.close()


async def drained(store: Store) -> int:
    fired = 0
    while True:
        done = await store.ledger.fire(decide, limit=200, trust=lambda _: True)
        fired += done.schedules
        if not done.schedules:
            return fired


async def idle_tick(store: Store) -> float:
    """The median of many ticks with nothing due."""
    return await median(lambda: store.ledger.fire(decide, limit=200, trust=lambda _: True))


async def median(work: Callable[[], Awaitable[object]], times: int = 101) -> float:
    took = []
    for _ in range(times):
        begin = perf_counter()
        await work()
        took.append(perf_counter() - begin)
    return sorted(took)[times // 2]


async def enqueue_rate(kind: str, store: Store) -> None:
    calls = [JobRequest(task="nothing")] * 10_000
    begin = perf_counter()
    await store.jobs.enqueue(calls)
    bulk = 10_000 / (perf_counter() - begin)
    one = 1 / await median(lambda: store.jobs.enqueue(calls[:1]), 201)
    print(f"{kind:9} enqueue: {bulk:,.0f} a second in bulk, {one:,.0f} one by one")


def peer_lateness() -> None:
    """APScheduler 3 in memory, with the same schedules: nothing is handed over durably."""
    late: list[timedelta] = []
    scheduler = BackgroundScheduler(timezone=UTC, executors={"default": {"type": "threadpool"}})
    start = now() + timedelta(seconds=2)

    def fire(number: int) -> None:
        due = start + number * PERIOD / SCHEDULES
        late.append((now() - due) % PERIOD)

    for number in range(SCHEDULES):
        trigger = IntervalTrigger(seconds=5, start_date=start + number * PERIOD / SCHEDULES)
        scheduler.add_job(fire, trigger, args=[number])
    scheduler.start()
    asyncio.run(sleep(2 + SECONDS))
    scheduler.shutdown()
    print(
        f"{'peer':9} APScheduler 3 in memory, one process, forgets on restart: {len(late)} fired, "
        f"lateness p50 {percentile(late, 0.5):.1f} ms, p99 {percentile(late, 0.99):.1f} ms"
    )
