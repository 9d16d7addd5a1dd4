"""pgqueuer's worker, as its command runs it: uvloop, asyncpg, and batches of 100."""

import os

import asyncpg  # type: ignore[import-untyped]
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job

from benchmarks.queue import jobs


async def main() -> None:
    connection = await asyncpg.connect(os.environ[jobs.URL])
    queue = PgQueuer.from_asyncpg_connection(connection)

    @queue.entrypoint("nothing")
    async def nothing(_: Job) -> None:
        jobs.nothing()

    @queue.entrypoint("mark")
    async def mark(job: Job) -> None:
        jobs.mark(int(job.payload or b"0"))

    await queue.run(batch_size=100)


if __name__ == "__main__":
    uvloop.run(main())
