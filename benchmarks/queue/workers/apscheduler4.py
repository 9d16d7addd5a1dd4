"""APScheduler 4: scheduler and worker in each process, notified by PostgreSQL."""

import asyncio
import os
from datetime import timedelta

from apscheduler import AsyncScheduler
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.eventbrokers.psycopg import PsycopgEventBroker
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.queue import jobs

AHEAD = timedelta(seconds=3)  # so that all of them are stored before the first is due


async def late(number: int) -> None:
    jobs.late(number)


async def main() -> None:
    url = os.environ[jobs.URL]
    store = SQLAlchemyDataStore(create_async_engine(url.replace("://", "+psycopg://", 1)))
    async with AsyncScheduler(store, PsycopgEventBroker(url)) as scheduler:
        await scheduler.configure_task("late", func=late)
        for number in range(jobs.SCHEDULES):
            await scheduler.add_schedule(
                "late",
                IntervalTrigger(seconds=5, start_time=jobs.first_moment(number, ahead=AHEAD)),
                id=str(number),
                args=[number],
            )
        await scheduler.run_until_stopped()


if __name__ == "__main__":
    asyncio.run(main())
