"""The network between nodes and PostgreSQL fails: nothing arrives, or only the answers are lost."""

import asyncio
import random
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from duly.app import open_store
from duly.clock import boottime, now, sleep
from duly.errors import StoreUnavailable
from duly.model.states import State
from duly.store.store import Store
from tests.acceptance.fleet import Member, calls, common, enlisted, fleet, until
from tests.acceptance.ledger import (
    MANY,
    every_second,
    judge_every_moment,
    over,
    overlapping,
    say_lateness,
)
from tests.acceptance.report import Report
from tests.infrastructure.proxy import Network, Proxy

FOREVER = 300.0
# What a node may take beyond what it must, once everything arrives again.
GENEROUS = 5.0
BACK_AT_LAST = 30.0


async def nothing_arrives(
    url: str, folder: Path, *, cuts: int = 10, seconds: float = 60.0, lease: float = 10.0
) -> Report:
    """Half of the nodes lose their network without being told, again and again.

    Connections of that time never work again, as behind a firewall that has forgotten them: a node
    that waits for their answers waits for ever.
    """
    report = Report()
    async with (
        Proxy.before(url) as proxy,
        fleet(url, folder, nodes=2, lease=lease, ways=[proxy.url]) as (there, store),
    ):
        cut_off = list(there.members)
        long = set(await store.jobs.enqueue(list(calls(8, seconds=FOREVER, again=0.1))))
        await until(lambda: there.count("begin") == len(long), seconds=60)
        there.ways = [url]
        for _ in cut_off:
            there.start()
        await until(lambda: enlisted(store, 4), seconds=60)
        end = now() + timedelta(seconds=cuts * (seconds + lease))
        added = await store.schedules.add(every_second(10, end=end, everything=True))
        back = [await _cut(proxy, store, cut_off, seconds=seconds) for _ in range(cuts)]
        report.must(not there.gone(), "a node ended by itself")
        await until(lambda: over(store), seconds=cuts * (seconds + lease) + 60)
        stopped = {line.job for line in there.lines("interrupted")}
        report.say(f"{cuts} cuts of {seconds:g} s, {len(stopped)} of {len(long)} jobs stopped")
        report.must(stopped == long, "nodes that were cut off did not stop their jobs")
        at_once = overlapping(there, lambda span: span.job)
        report.must(not at_once, f"two runs of one job at once: {at_once[:3]}")
        await judge_every_moment(store, added, there, report=report)
        say_lateness(there, report, most=lease + GENEROUS)
        report.within(max(back), GENEROUS, "back at work after")
        return common(there, report)


async def _cut(proxy: Proxy, store: Store, cut_off: list[Member], *, seconds: float) -> float:
    """Let nothing arrive for so long; return how long the nodes then took to be back."""
    proxy.network = Network.BLACKHOLE
    await sleep(seconds)
    proxy.forsake()
    proxy.network = Network.PASS
    healed = now()

    async def are_back() -> bool:
        seen = {one.name for one in await store.work.living() if one.beat_at > healed}
        return all(any(name.endswith(f"-{one.process.pid}") for name in seen) for one in cut_off)

    return await until(are_back, seconds=BACK_AT_LAST)


async def answers_are_lost(url: str, folder: Path, *, seconds: float = 90.0) -> Report:
    """Commits arrive, and their answers do not: of the nodes, and of whoever asks for jobs.

    Whoever asks does so again with the same idempotency key, until there is an answer.
    """
    report = Report()
    async with (
        Proxy.before(url) as proxy,
        fleet(url, folder, nodes=3, ways=[proxy.url]) as (there, store),
    ):
        end = now() + timedelta(seconds=seconds)
        added = await store.schedules.add(every_second(10, end=end, everything=True))
        keys = await _lose_answers(proxy, seconds=seconds)
        report.must(not there.gone(), "a node ended by itself")
        await until(lambda: over(store), seconds=120)
        report.say(f"{proxy.lost} answers lost")
        report.must(proxy.lost > seconds, "next to no answer was lost")
        succeeded = Counter(
            job.title for job in await store.jobs.ended(State.SUCCEEDED, limit=MANY)
        )
        wrong = [key for key, ids in keys.items() if len(ids) != 1 or succeeded[key] != 1]
        report.say(f"{len(keys)} jobs asked for by key, {len(wrong)} not exactly once")
        report.must(keys, "nobody asked for anything")
        report.must(not wrong, f"not exactly once: {[(key, keys[key]) for key in wrong[:3]]}")
        await judge_every_moment(store, added, there, report=report)
        say_lateness(there, report, most=GENEROUS)
        return common(there, report)


async def _lose_answers(proxy: Proxy, *, seconds: float) -> dict[str, set[int]]:
    """Return the numbers that were promised for each key."""
    keys = defaultdict[str, set[int]](set)
    end = boottime() + seconds
    store = await open_store(proxy.url)
    asking = asyncio.create_task(_ask(store, keys, until=end))
    while boottime() < end:
        # The answer to a commit, or to anything that may commit by itself.
        proxy.committing = random.choice([b"commit\0", b""])
        proxy.network = Network.LOSE_ANSWER_TO_COMMIT
        await sleep(random.uniform(0, 0.1))
        proxy.network = Network.PASS
        await sleep(random.uniform(0, 0.3))
    await asking
    await store.close()
    return keys


async def _ask(store: Store, keys: dict[str, set[int]], *, until: float) -> None:
    while boottime() < until:
        key = f"key {len(keys)}"
        wanted = [replace(call, title=key) for call in calls(1, "quick")]
        while not keys[key]:
            with suppress(StoreUnavailable):
                keys[key].update(await store.jobs.enqueue_once(wanted, key=key, mark="same"))
        # Once more, as somebody does who has not seen the answer.
        with suppress(StoreUnavailable):
            keys[key].update(await store.jobs.enqueue_once(wanted, key=key, mark="same"))
