"""APScheduler 3 as its documentation has it: a blocking scheduler and its pool of threads."""

import os
from datetime import UTC, timedelta

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.interval import IntervalTrigger

from benchmarks.queue import jobs

AHEAD = timedelta(seconds=3)  # so that all of them are stored before the first is due


def main() -> None:
    url = os.environ[jobs.URL]
    url = f"sqlite:///{url}" if url.startswith("/") else url.replace("://", "+psycopg://", 1)
    store = SQLAlchemyJobStore(url=url)
    scheduler = BlockingScheduler(timezone=UTC, jobstores={"default": store})
    for number in range(jobs.SCHEDULES):
        trigger = IntervalTrigger(seconds=5, start_date=jobs.first_moment(number, ahead=AHEAD))
        scheduler.add_job(jobs.late, trigger, args=[number], misfire_grace_time=None)
    scheduler.start()


if __name__ == "__main__":
    main()
