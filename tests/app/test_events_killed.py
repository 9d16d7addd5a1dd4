"""Whoever reacts is killed at any instant: each event still gets one job for each schedule. SQLite.

Nobody repeats anything: whoever comes next looks at what has not been looked at.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter

from duly.app import migrate_store, open_store
from duly.model.event import Emitted
from duly.model.payload import encode
from tests.factories import plan

EVENTS = 300
DOCS = 60
ROUNDS = 6
REACTING = """
import asyncio, os, sys
from duly.app import open_store

async def react(url):
    store = await open_store(url)
    os.write(1, b"begun\\n")
    while (await store.events.react(limit=1)).events:
        pass
    os.write(1, b"done\\n")

asyncio.run(react(sys.argv[1]))
"""


async def said(url: str) -> None:
    if not url.startswith("postgresql:"):
        await migrate_store(url)
    store = await open_store(url)
    doc = encode({"doc": {"$event": "doc"}})
    await store.schedules.add(
        [
            plan("each", "on doc.changed", args=doc),
            plan("last", 'on doc.* key="doc:{doc}" debounce=1h', task="the task", args=doc),
        ]
    )
    for number in range(EVENTS):
        payload = encode({"doc": number % DOCS})
        await store.events.emit([Emitted(name="doc.changed", payload=payload)])
    await store.close()


def react_and_be_killed(url: str, after: float) -> None:
    """One that reacts, for so long; then it is gone, whatever it was doing."""
    process = subprocess.Popen(
        [sys.executable, "-c", REACTING, url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.wait()


async def looked(url: str) -> tuple[Counter[str], list[str], list[int]]:
    """After the rest was reacted to: what became of all, and the jobs that there are."""
    store = await open_store(url)
    before = (await store.events.react(limit=3)).events
    while (await store.events.react(limit=100)).events:
        pass
    outcomes: Counter[str] = Counter()
    for name in ("each", "last"):
        fires = await store.ledger.fires(name, limit=10_000)
        outcomes.update(f"{name} {fire.outcome}" for fire in fires)
    jobs = await store.jobs.page(limit=10_000)
    last = sorted(str(job.args) for job in jobs if job.task == "the task")
    each = [job.fire_id or 0 for job in jobs if job.task == "work"]
    await store.close()
    assert before, "it was killed before its work was done"
    return outcomes, last, each


def test_each_event_gets_one_job_whoever_is_killed(url: str) -> None:
    asyncio.run(said(url))
    dice = random.Random(7)
    for _ in range(ROUNDS):
        react_and_be_killed(url, dice.uniform(0.005, 0.06))
    outcomes, last, each = asyncio.run(looked(url))
    assert len(each) == len(set(each)) == EVENTS
    assert last == sorted(f'{{"doc":{doc}}}' for doc in range(DOCS))
    assert outcomes == {
        "each queued": EVENTS,
        "last queued": DOCS,
        "last merged": EVENTS - DOCS,
    }
