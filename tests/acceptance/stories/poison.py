"""A job kills whatever runs it: it is given up after three crashes, and its neighbours are done."""

import random
from pathlib import Path

from duly.model.states import State
from tests.acceptance.fleet import Fleet, calls, common, fleet, idle, until
from tests.acceptance.report import Report

NODES = 3
# So many times it may bring down what runs it.
MOST_CRASHES = 3


async def a_pill_is_poisoned(url: str, folder: Path, *, neighbours: int = 1_000) -> Report:
    """Nodes that die are started again, as whoever runs a service does."""
    report = Report()
    wanted = [*calls(neighbours, "quick"), *calls(1, "poison")]
    random.shuffle(wanted)
    async with fleet(url, folder, nodes=NODES) as (there, store):
        numbers = await store.jobs.enqueue(wanted)
        seconds = await until(lambda: _restarted(there) and idle(store), seconds=120)
        failed = await store.jobs.ended(State.FAILED, limit=100)
        pills = [(job.task, job.crashes) for job in failed]
        ended = [line.job for line in there.lines("end")]
        report.say(
            f"{len(set(ended))} neighbours done, {len(ended) - len(set(ended))} of them again"
        )
        deaths = there.started - NODES
        report.say(f"{deaths} nodes died, {there.count('begin')} tries of the pill")
        report.must(pills == [("poison", MOST_CRASHES)], f"failed with so many crashes: {pills}")
        report.must(
            len(set(ended)) == neighbours, f"{neighbours - len(set(ended))} neighbours lost"
        )
        report.must(0 < deaths <= MOST_CRASHES, f"{deaths} nodes died of one pill")
        succeeded = await store.jobs.ended(State.SUCCEEDED, limit=len(numbers))
        report.must(len(succeeded) == neighbours, f"{len(succeeded)} succeeded")
        report.within(seconds, 30, "all over after")
        return common(there, report)


def _restarted(there: Fleet) -> bool:
    for member in there.gone():
        there.bury(member)
        there.start()
    return True
