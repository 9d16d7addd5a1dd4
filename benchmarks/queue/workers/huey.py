"""Huey's consumer on SQLite: one thread, since SQLite has one writer, and a short poll."""

import logging
import os
import sqlite3
from typing import cast

from huey import Huey  # type: ignore[import-untyped]
from huey.api import TaskWrapper  # type: ignore[import-untyped]
from huey.storage import SqliteStorage  # type: ignore[import-untyped]

from benchmarks.queue import jobs

SYNCHRONOUS = "BENCHMARK_SYNCHRONOUS"


class Storage(SqliteStorage):  # type: ignore[misc]
    """Huey's own, with the word between its two: it knows full and off."""

    def __init__(self, *args: object, synchronous: str, **kwargs: object) -> None:
        self._synchronous = synchronous
        super().__init__(*args, **kwargs)

    def _create_connection(self) -> sqlite3.Connection:
        connection = cast(sqlite3.Connection, super()._create_connection())
        connection.execute(f"pragma synchronous = {self._synchronous}")
        return connection


def application(path: str, *, synchronous: str) -> tuple[Huey, dict[str, TaskWrapper]]:
    huey = Huey("queue", storage_class=Storage, filename=path, synchronous=synchronous, timeout=30)
    return huey, {name: huey.task()(job) for name, job in jobs.JOBS.items()}


def main() -> None:
    logging.disable(logging.INFO)
    huey, _ = application(os.environ[jobs.URL], synchronous=os.environ[SYNCHRONOUS])
    consumer = huey.create_consumer(
        workers=1, worker_type="thread", initial_delay=0.01, max_delay=0.02, periodic=False
    )
    consumer.run()


if __name__ == "__main__":
    main()
