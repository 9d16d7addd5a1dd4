"""Nodes are killed while flows run: each step succeeds once, and has what it waited for."""

import asyncio
import random
from collections import Counter
from pathlib import Path

from duly.clock import boottime, sleep
from duly.model.states import State
from duly.store.store import Store
from tests.acceptance.fleet import calls, common, fleet, idle, until
from tests.acceptance.report import Report
from tests.acceptance.stories.kills import kill_one

NODES = 3
PARTS = 8
AT_ONCE = 15


async def flows_are_completed(
    url: str, folder: Path, *, seconds: float = 60.0, pause: float = 1.0
) -> Report:
    """Flows are asked for again and again, and one node after the other is killed."""
    report = Report()
    numbers, kills = list[int](), 0
    async with fleet(url, folder, nodes=NODES, lease=5.0) as (there, store):
        end = boottime() + seconds
        while boottime() < end:
            numbers += await store.jobs.enqueue(list(calls(AT_ONCE, "errand", size=PARTS)))
            await sleep(random.uniform(0.1, 1.0) * pause)
            await asyncio.to_thread(kill_one, there)
            kills += 1
        await until(lambda: idle(store), seconds=120)
        report.say(f"{len(numbers)} flows of {PARTS + 2} steps, {kills} kills")
        again = there.count("begin") - len(numbers) * (PARTS + 2)
        report.say(f"{again} jobs begun again")
        report.must(again > 0, "no kill interrupted anything")
        await _judge(store, numbers, report=report)
        return common(there, report)


async def _judge(store: Store, numbers: list[int], *, report: Report) -> None:
    ended = await store.jobs.ended(State.SUCCEEDED, limit=20 * len(numbers) * PARTS)
    flows = {job.id: job.result for job in ended if job.step is None}
    wrong = [n for n in numbers if flows.get(n) != str(sum(2 * item for item in range(PARTS)))]
    report.must(not wrong, f"flows without their result: {wrong[:10]}")
    places = Counter((job.parent, job.step, job.part) for job in ended if job.step is not None)
    doubled = [place for place, count in places.items() if count > 1]
    report.must(not doubled, f"parts that succeeded twice: {doubled[:10]}")
    expected = len(numbers) * (PARTS + 2)
    report.must(len(places) == expected, f"{len(places)} parts of {expected} have succeeded")
