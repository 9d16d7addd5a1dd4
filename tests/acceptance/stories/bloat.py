"""A transaction stays open for long, so that vacuum removes nothing: claims stay fast."""

import os
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import psycopg

from duly.clock import boottime, sleep
from duly.doctor.postgres import judge_vacuum
from duly.engine.claim_planner import ClaimFloors, QueueShelf
from duly.model.job import Claimed
from duly.model.states import Move
from duly.model.worker import Profile
from duly.policy.verdict import Verdict
from duly.store.store import Store
from duly.store.values import NORMAL, ClaimRequest, Settlement
from tests.acceptance.fleet import Impossible, calls, common, fleet, idle, until
from tests.acceptance.report import Report, percentile

RATE = 500  # jobs a second
LEASE = timedelta(seconds=60)
PLACE = QueueShelf("default", NORMAL)
# How long the slowest claim in a hundred may take, from so many dead rows on.
MARKS = {100_000: 0.020, 400_000: 0.100}
WARNED = 300.0
DEAD = "select n_dead_tup from pg_stat_user_tables where schemaname = 'duly' and relname = 'job'"


@dataclass(frozen=True, slots=True)
class Probe:
    """One claim, as a worker makes it: from where its last one ended, but for one each second."""

    dead: int
    took: timedelta


async def a_transaction_stays_open(url: str, folder: Path, *, seconds: float = 1_800.0) -> Report:
    """Nodes work as ever; a worker of our own claims a job now and then, and is measured."""
    if not url.startswith("postgresql:"):
        raise Impossible("SQLite has no dead rows")
    report, probes, warned = Report(), list[Probe](), None
    async with fleet(url, folder, nodes=2) as (there, store):
        with psycopg.connect(url) as idler, psycopg.connect(url, autocommit=True) as other:
            idler.execute("set transaction isolation level repeatable read")
            idler.execute("select 1 from duly.job limit 1").fetchall()
            asked, began = 0, boottime()
            prober = await _Prober.enlisted(store)
            while (passed := boottime() - began) < seconds:
                count = max(0, int(passed * RATE) - asked)
                await store.jobs.enqueue(list(calls(count, "quick")))
                asked += count
                [(dead,)] = other.execute(DEAD).fetchall()
                probes.append(Probe(dead, await prober.claim()))
                found = judge_vacuum(await store.diagnostics.settings())
                if warned is None and found.level == "warning":
                    warned = boottime() - began
                await sleep(0.2)
        await until(lambda: idle(store), seconds=120)
        done = {line.job for line in there.lines("end")} | prober.done
        report.say(f"{asked} jobs, {asked - len(done)} lost")
        report.must(len(done) == asked, f"{asked - len(done)} jobs lost")
        for dead, most in MARKS.items():
            took = [probe.took for probe in probes if dead <= probe.dead < dead * 2]
            if took:
                report.within(percentile(took, 0.99), most, f"{dead:,} dead rows: claim p99")
        report.say(f"at last {probes[-1].dead:,} dead rows")
        last = [probe.took for probe in probes[-100:]]
        report.say(f"claim p50 {percentile(last, 0.5):.3f} s, p99 {percentile(last, 0.99):.3f} s")
        report.must(warned is not None or seconds < WARNED, "doctor did not notice it")
        if warned is not None:
            report.within(warned, WARNED, "doctor warned after")
        return common(there, report)


@dataclass
class _Prober:
    store: Store
    request: ClaimRequest
    done: set[int] = field(default_factory=set)
    floors: ClaimFloors = field(default_factory=lambda: ClaimFloors(boottime))

    @classmethod
    async def enlisted(cls, store: Store) -> "_Prober":
        profile = Profile(
            name=f"probe-{os.getpid()}", queues=("default",), signatures={"quick": ""}
        )
        worker = await store.work.register(profile, lease=LEASE)
        return cls(store, ClaimRequest(worker=worker.id, queue="default", tasks=["quick"], limit=1))

    async def claim(self) -> timedelta:
        """Claim a job and settle it; return how long the claim took, also if it found none."""
        await self.store.work.renew(self.request.worker, LEASE)
        request = replace(self.request, floor=self.floors.of(PLACE))
        began = boottime()
        found = await self.store.work.finish_and_claim([], request)
        took = timedelta(seconds=boottime() - began)
        self.floors.note(found.jobs, request, PLACE, sent=began)
        await self.store.work.settle([_done(job) for job in found.jobs])
        self.done.update(job.id for job in found.jobs)
        return took


def _done(job: Claimed) -> Settlement:
    verdict = Verdict(move=Move.SUCCEED, reason="probed", crashes=0)
    return Settlement(job=job, verdict=verdict, outcome="succeeded")
