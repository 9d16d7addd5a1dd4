"""Nodes work for a long time: memory, descriptors, threads and tables stay as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import mean

import psycopg

from duly.clock import boottime, now, sleep
from tests.acceptance.fleet import Member, calls, common, fleet, until
from tests.acceptance.ledger import every_second, judge_by_the_file, judge_every_moment, over
from tests.acceptance.report import Report

NODES = 3
RATE = 100  # jobs a second, of which every fifth comes from a schedule
# So much more than the third quarter the last one may need. Before that, pages are taken that
# vacuum frees for the first time after some minutes, and history that nobody prunes yet.
MOST = {"memory": 1.05, "descriptors": 1.0, "threads": 1.0, "live": 1.05, "stored": 1.05}
MEGABYTE = 2**20
# A pruner trusts a clock that was steady for ten minutes, and then prunes every five.
PRUNING = timedelta(minutes=15).total_seconds()
HISTORY = {"history", "fire"}
SIZES = """
    select coalesce(parent.relname, own.relname), sum(pg_total_relation_size(own.oid))::bigint
      from pg_class as own
      left join pg_class as parent on parent.oid = pg_partition_root(own.oid)
     where own.relnamespace = 'duly'::regnamespace and own.relkind = 'r'
     group by 1
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process has, and what tables take on the disk. A SQLite file is one table."""

    memory: int
    descriptors: int
    threads: int
    tables: Mapping[str, int]

    @property
    def live(self) -> int:
        """The tables without history."""
        return self.stored - sum(self.tables.get(name, 0) for name in HISTORY)

    @property
    def stored(self) -> int:
        return sum(self.tables.values())


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
        else:
            judge_by_the_file(added, there, report=report)
        _judge(samples, report=report, settled=seconds >= 2 * PRUNING)
        return common(there, report)


def _judge(samples: Sequence[Sample], *, report: Report, settled: bool) -> None:
    """Compare quarters; sizes of tables only if the second half began after the first pruning."""
    quarter = max(len(samples) // 4, 1)
    early, late = samples[-2 * quarter : -quarter] or samples, samples[-quarter:]
    for name, most in MOST.items():
        before, after = (mean(getattr(one, name) for one in part) for part in (early, late))
        unit, word = (1, "") if name in ("descriptors", "threads") else (MEGABYTE, " MB")
        report.say(f"{name} {before / unit:.1f}{word} → {after / unit:.1f}{word}")
        of_tables = name in ("live", "stored")
        flat = after <= before * most + (0 if of_tables else unit)
        report.must(flat or (of_tables and not settled), f"{name}: {before} → {after}")
    grown = {name: size - early[0].tables.get(name, 0) for name, size in late[-1].tables.items()}
    most_grown = max(grown, key=lambda name: grown[name])
    report.say(f"{most_grown} grew most, by {grown[most_grown] / MEGABYTE:.2f} MB")


def _sample(member: Member, url: str) -> Sample:
    place = Path(f"/proc/{member.process.pid}")
    words = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    return Sample(
        memory=int(words["VmRSS"].split()[0]) * 1024,
        threads=int(words["Threads"]),
        descriptors=len(list((place / "fd").iterdir())),
        tables=_sizes(url),
    )


def _sizes(url: str) -> dict[str, int]:
    if not url.startswith("postgresql:"):
        return {"file": Path(url).stat().st_size}
    with psycopg.connect(url) as connection:
        return dict(connection.execute(SIZES).fetchall())
