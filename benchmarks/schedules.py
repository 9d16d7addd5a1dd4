"""How many schedules fire in a second, and what a million idle ones cost.

How late they fire beside APScheduler is a question of ``benchmarks.queue``.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import perf_counter

from duly.app import connect, migrate_store
from duly.clock import now
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan
from duly.policy.firing import decide
from duly.store.store import Store
from tests.infrastructure.cluster import installed_programs, running_cluster

ALLOW = Policies(overlap="allow", missed=Missed("all", at_most=1_000))


def main() -> None:
    for kind in ("sqlite", "postgres"):
        with store_url(kind) as url:
            asyncio.run(rates(kind, url))


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
