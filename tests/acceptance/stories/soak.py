"""Nodes work for a long time: memory, descriptors, threads and tables stay as they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import mean

import psycopg

from duly.clock import boottime, now, sleep
from tests.acceptance.fleet import Member, calls, common, fleet, until
from tests.acceptance.ledger import every_second, judge_every_moment, over
from tests.acceptance.report import Report

NODES = 3
RATE = 100  # jobs a second, of which every fifth comes from a schedule
MEMORY = 1.05  # the last quarter may need so much more than the second
# The pruner deletes only what a clock says that was steady for so long.
PRUNING = timedelta(minutes=15).total_seconds()
TABLES = 1.10
# Without history, which is dropped by whole days.
LIVE = """
    select sum(pg_total_relation_size(oid))::bigint from pg_class
     where relnamespace = 'duly'::regnamespace and relkind = 'r' and not relispartition
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process has, and what the tables of work that is not over take on the disk.

    A SQLite file holds history, too: it stops growing when the pruner has begun to delete.
    """

    memory: int
    descriptors: int
    threads: int
    stored: int


async def nodes_work_for_long(
    url: str, folder: Path, *, seconds: float = 1_800.0, every: float = 5.0
) -> Report:
    """The first node is watched; of the others, one is killed each minute."""
    report, samples = Report(), list[Sample]()
    keep = min(300.0, seconds)
    async with fleet(url, folder, nodes=NODES, more=["--keep", str(keep)]) as (there, store):
        watched, *_ = there.members
        began, end = now(), boottime() + seconds
        added = await store.schedules.add(
            every_second(RATE // 5, end=began + timedelta(seconds=seconds), everything=True)
        )
        asked, minute = 0, boottime() + 60
        while (left := end - boottime()) > 0:
            await store.jobs.enqueue(list(calls(int(RATE * 0.8 * every), "quick")))
            asked += int(RATE * 0.8 * every)
            await sleep(min(left, every))
            samples.append(_sample(watched, url))
            if boottime() > minute:
                there.kill(there.members[-1])
                there.start()
                minute += 60
        await until(lambda: over(store), seconds=120)
        done = {line.job for line in there.lines("end") if not line.schedule}
        report.say(f"{asked} jobs, {asked - len(done)} lost, {there.started - NODES} kills")
        report.must(len(done) == asked, f"{asked - len(done)} jobs lost")
        if seconds < keep + PRUNING:  # else the ledger has forgotten the first of them
            await judge_every_moment(store, added, there, report=report)
        flat = url.startswith("postgresql:") or seconds >= 2 * PRUNING
        _judge(samples, report=report, flat=flat)
        return common(there, report)


def _judge(samples: Sequence[Sample], *, report: Report, flat: bool) -> None:
    quarter = max(len(samples) // 4, 1)
    early, late = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
    bounds = {"memory": MEMORY, "descriptors": 1.0, "threads": 1.0}
    for name, most in (bounds | {"stored": TABLES if flat else 0.0}).items():
        before = mean(getattr(sample, name) for sample in early)
        after = mean(getattr(sample, name) for sample in late)
        unit, word = (2**20, " MB") if name in ("memory", "stored") else (1, "")
        report.say(f"{name} {before / unit:.1f}{word} → {after / unit:.1f}{word}")
        report.must(not most or after <= before * most + unit, f"{name} grew: {before} → {after}")


def _sample(member: Member, url: str) -> Sample:
    place = Path(f"/proc/{member.process.pid}")
    words = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    return Sample(
        memory=int(words["VmRSS"].split()[0]) * 1024,
        threads=int(words["Threads"]),
        descriptors=len(list((place / "fd").iterdir())),
        stored=_stored(url),
    )


def _stored(url: str) -> int:
    if not url.startswith("postgresql:"):
        return Path(url).stat().st_size
    with psycopg.connect(url) as connection:
        row = connection.execute(LIVE).fetchone()
    assert row
    return int(row[0])
