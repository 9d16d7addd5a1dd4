"""Procrastinate's worker. More concurrency only makes the same round trips wait for each other."""

import asyncio
import os

from procrastinate import App, PsycopgConnector

from benchmarks.queue import jobs

CONCURRENCY = 4


def application(url: str, *, connections: int) -> App:
    connector = PsycopgConnector(conninfo=url, min_size=1, max_size=connections)
    app = App(connector=connector)

    @app.task(name="nothing")
    async def nothing() -> None:
        jobs.nothing()

    @app.task(name="mark")
    async def mark(argument: int) -> None:
        jobs.mark(argument)

    return app


async def main() -> None:
    app = application(os.environ[jobs.URL], connections=CONCURRENCY)
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


if __name__ == "__main__":
    asyncio.run(main())
