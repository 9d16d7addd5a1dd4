"""A node is killed and never comes back: its jobs are run by the others."""

from pathlib import Path

from duly.clock import sleep
from tests.acceptance.fleet import calls, common, fleet, idle, until
from tests.acceptance.report import Report

JOBS = 60
SLOTS = 10
# What it may take beyond what it must.
GENEROUS = 5.0


async def a_node_is_gone(
    url: str, folder: Path, *, job: float = 5.0, lease: float = 15.0, apart: bool = False
) -> Report:
    """Three nodes with ten slots, sixty jobs, and a kill in the middle of the second thirty.

    Where another node can see that the process is gone, nobody waits for the lease. ``apart``, each
    is alone on its machine, and only the lease tells.
    """
    report = Report()
    async with fleet(url, folder, nodes=3, lease=lease, slots=SLOTS, apart=apart) as (there, store):
        numbers = await store.jobs.enqueue(list(calls(JOBS, seconds=job)))
        await until(lambda: there.count("begin") >= JOBS, seconds=job * 3 + 30)
        await sleep(job / 2)
        there.kill(there.busiest())
        most = job + GENEROUS + (lease if apart else 0)
        seconds = await until(lambda: idle(store), seconds=most + 60)
        ended = {line.job for line in there.lines("end")}
        again = there.count("begin") - JOBS
        report.say(f"{len(ended)} of {JOBS} done")
        report.say(f"{again} begun again")
        report.must(ended == set(numbers), f"lost: {sorted(set(numbers) - ended)}")
        report.must(0 < again <= SLOTS, f"{again} jobs were begun again, not 1 to {SLOTS}")
        report.within(seconds, most, "all done after")
        return common(there, report)
