"""PostgreSQL is put back to a backup while nodes work: what it then knows is done once."""

import asyncio
from datetime import timedelta
from pathlib import Path

from duly.clock import now, sleep
from tests.acceptance.fleet import common, fleet, until
from tests.acceptance.ledger import every_second, judge_every_moment, over
from tests.acceptance.report import Report
from tests.infrastructure.cluster import Cluster

# How soon something runs once the database is back.
BACK = 5.0


async def a_backup_is_restored(
    folder: Path, *, cluster: Cluster, restores: int = 3, seconds: float = 20.0
) -> Report:
    """A backup, some seconds of work that it does not know, and the backup in its place.

    Moments since the backup fire again, in jobs of the same numbers: what a node still has to say
    of the jobs that are gone must not be taken for theirs.
    """
    report = Report()
    async with fleet(cluster.dsn, folder, nodes=3) as (there, store):
        end = now() + timedelta(seconds=restores * 2 * seconds)
        added = await store.schedules.add(every_second(10, end=end, everything=True))
        back = list[float]()
        for _ in range(restores):
            await asyncio.to_thread(cluster.back_up)
            await sleep(seconds)
            await asyncio.to_thread(cluster.restore)
            restored = now()
            begun = lambda at=restored: any(line.at > at for line in there.lines("begin"))  # noqa: E731
            back.append(await until(begun, seconds=60))
        report.must(not there.gone(), "a node ended by itself")
        await until(lambda: over(store), seconds=seconds * restores * 2 + 120)
        await judge_every_moment(store, added, there, report=report, restored=True)
        report.within(max(back), BACK, "the first run once it was back")
        return common(there, report)
