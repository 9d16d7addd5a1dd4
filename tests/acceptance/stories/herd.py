"""Very many schedules are due in the same second: all fire soon, and the others are not late."""

from datetime import datetime, timedelta
from pathlib import Path

import psycopg

from duly.clock import now, sleep
from duly.model.policies import Policies
from duly.model.schedule import Plan
from duly.model.states import State
from tests.acceptance.fleet import common, fleet, until
from tests.acceptance.ledger import MANY, every_second, judge_every_moment, lateness, over
from tests.acceptance.report import Report, percentile

NODES = 4
OTHERS = 20
FIRED, LATE = 3.0, 2.0
MOST_ROWS = 500  # of a transaction
LARGEST = "select max(count) from (select count(*) from duly.fire group by xmin) as commits (count)"


async def a_herd_is_due(
    url: str, folder: Path, *, schedules: int = 10_000, before: float = 35.0, after: float = 15.0
) -> Report:
    """Others are due each second, some seconds before and after it."""
    report = Report()
    async with fleet(url, folder, nodes=NODES) as (there, store):
        # A schedule that is added takes a node's time: let all of them be there before.
        moment = (now() + timedelta(seconds=before)).replace(microsecond=0)
        herd = await store.schedules.add([_once(number, moment) for number in range(schedules)])
        report.must(now() < moment, "the schedules were not there in time")
        end = moment + timedelta(seconds=after)
        added = await store.schedules.add(every_second(OTHERS, end=end, everything=True))
        await sleep((end - now()).total_seconds())  # asking meanwhile would take a core
        await until(lambda: over(store), seconds=180)
        numbers = {schedule.id for schedule in herd}
        ran = [line.job for line in there.lines("end") if line.schedule in numbers]
        report.say(f"{len(ran)} of {schedules} ran, {len(ran) - len(set(ran))} again")
        report.must(len(set(ran)) == schedules, f"{schedules - len(set(ran))} lost")
        await judge_every_moment(store, added, there, report=report)
        ended = await store.jobs.ended(State.SUCCEEDED, limit=MANY)
        fired = max(job.created_at for job in ended if job.schedule_id in numbers)
        report.within((fired - moment).total_seconds(), FIRED, "the last one fired after")
        report.within(percentile(lateness(there), 0.99), LATE, "others late p99")
        if url.startswith("postgresql:"):
            with psycopg.connect(url) as connection:
                [(rows,)] = connection.execute(LARGEST).fetchall()
            report.say(f"{rows} fires in the largest transaction")
            report.must(rows <= MOST_ROWS, f"{rows} fires in one transaction")
        return common(there, report)


def _once(number: int, moment: datetime) -> Plan:
    rule = f"{moment:%Y-%m-%dT%H:%M:%S}Z"
    return Plan(name=f"herd {number:05}", rule=rule, task="quick", policies=Policies())
