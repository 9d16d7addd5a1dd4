"""Many clients ask for the same jobs by idempotency key, and are killed: each job is there once."""

import asyncio
import random
from collections import Counter, defaultdict
from pathlib import Path

from duly.clock import sleep
from duly.model.states import State
from tests.acceptance.fleet import Fleet, common, fleet, idle, until
from tests.acceptance.ledger import MANY
from tests.acceptance.report import Report

CLIENTS = 16


async def keys_are_asked_for_at_once(
    url: str, folder: Path, *, keys: int = 10_000, pause: float = 2.0
) -> Report:
    """Each client asks for every key, in the same order; one that is killed has a successor."""
    report, kills = Report(), 0
    async with fleet(url, folder, nodes=2) as (there, store):
        more = ["--keys", str(keys)]
        clients = Fleet(url, there.file, program="tests.acceptance.client", more=more)
        try:
            for _ in range(CLIENTS):
                clients.start()
            await until(lambda: there.count("promised"), seconds=60)
            clients.more = [*more, "--join"]
            while clients.members:
                await asyncio.to_thread(clients.kill, random.choice(clients.members))
                clients.start()
                kills += 1
                await sleep(random.uniform(0.5, 1.5) * pause)
                for member in clients.gone():
                    report.must(clients.bury(member) == 0, "a client failed")
        finally:
            clients.end()
        await until(lambda: idle(store), seconds=120)
        promised = defaultdict[int, list[int]](list)
        for line in there.lines("promised"):
            promised[line.schedule].append(line.job)
        several = [key for key, jobs in promised.items() if len(set(jobs)) > 1]
        answers = sum(map(len, promised.values()))
        done = await store.jobs.ended(State.SUCCEEDED, limit=MANY)
        titles = Counter(job.title for job in done)
        doubled = [title for title, count in titles.items() if count > 1]
        lost = set(range(1, keys + 1)) - {int(title) for title in titles}
        report.say(f"{len(promised)} keys, {answers} answers, {kills} kills")
        report.say(f"{len(several)} keys with two numbers, {len(doubled)} jobs twice")
        report.must(len(promised) == keys and not lost, f"lost: {sorted(lost)[:3]}")
        report.must(not several, f"different answers: {several[:3]}")
        report.must(not doubled, f"twice: {doubled[:3]}")
        return common(there, report)
