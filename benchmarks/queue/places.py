"""A new database for every round, so that no round pays for another, and a look into it."""

import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

import psycopg

from benchmarks.queue.contestant import Place, Queue
from tests.infrastructure.cluster import Cluster, installed_programs, running_cluster


@dataclass(frozen=True, slots=True)
class Places:
    """Where new places come from."""

    servers: Mapping[str, str]  # PostgreSQL servers whose commits wait for the disk, by name
    numbers: Iterator[int]

    @contextmanager
    def fresh(self, database: str) -> Iterator[Place]:
        with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder:
            if database == "SQLite":
                yield Place(str(Path(folder) / "queue.db"), Path(folder))
                return
            name = f"round_{next(self.numbers)}"
            server = self.servers[database]
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"create database {name}")
                try:
                    yield Place(server.replace("/postgres?", f"/{name}?"), Path(folder))
                finally:
                    connection.execute(f"drop database {name} with (force)")


@contextmanager
def all_clusters() -> Iterator[dict[str, Cluster]]:
    """The oldest PostgreSQL that is found and the newest: plans differ between versions."""
    found = list(installed_programs().items())
    with ExitStack() as stack:
        yield {
            f"PostgreSQL {version}": stack.enter_context(running_cluster(programs, durable=True))
            for version, programs in dict([found[0], found[-1]]).items()
        }


@contextmanager
def all_places() -> Iterator[Places]:
    with all_clusters() as clusters:
        yield Places({name: cluster.dsn for name, cluster in clusters.items()}, count())


class Watcher(Protocol):
    """What the harness sees and does in a contestant's database."""

    def more_than(self, tail: int) -> bool:
        """Whether more than so many jobs are unfinished."""

    def finished(self) -> int | None: ...

    def settle(self) -> None:
        """What its project recommends for a table that has just been filled, and a checkpoint."""

    def transactions(self) -> int | None:
        """Return how many transactions the database has seen; None if it does not count them."""

    def megabytes(self) -> float | None:
        """Return the size of the table of live jobs with its indexes; None if nobody knows."""

    def close(self) -> None: ...


def watcher(contestant: Queue) -> Watcher:
    kind = PostgresWatcher if contestant.database.startswith("PostgreSQL") else SqliteWatcher
    return kind(contestant)


class PostgresWatcher:
    def __init__(self, contestant: Queue) -> None:
        self._contestant = contestant
        self._connection = psycopg.connect(contestant.place.url, autocommit=True)

    def more_than(self, tail: int) -> bool:
        return self._number(few(self._contestant, tail)) > tail

    def finished(self) -> int | None:
        asked = self._contestant.finished
        return None if asked is None else self._number(asked)

    def settle(self) -> None:
        self._connection.execute(self._contestant.settle.encode())
        self._connection.execute("checkpoint")

    def transactions(self) -> int | None:
        asked = "select xact_commit + xact_rollback from pg_stat_database where datname = "
        return self._number(f"{asked}current_database()")

    def megabytes(self) -> float | None:
        table = self._contestant.unfinished.split()[-1]
        return self._number(f"select pg_total_relation_size('{table}')") / 1e6

    def close(self) -> None:
        self._connection.close()

    def _number(self, asked: str) -> int:
        row = self._connection.execute(asked.encode()).fetchone()
        assert row
        return int(row[0])


class SqliteWatcher:
    def __init__(self, contestant: Queue) -> None:
        self._contestant = contestant
        self._connection = sqlite3.connect(
            contestant.place.url, timeout=30, isolation_level=None, check_same_thread=False
        )

    def more_than(self, tail: int) -> bool:
        return self._number(few(self._contestant, tail)) > tail

    def finished(self) -> int | None:
        asked = self._contestant.finished
        return None if asked is None else self._number(asked)

    def settle(self) -> None:
        self._connection.executescript(self._contestant.settle)

    def transactions(self) -> int | None:
        return None

    def megabytes(self) -> float | None:
        return None

    def close(self) -> None:
        self._connection.close()

    def _number(self, asked: str) -> int:
        return int(self._connection.execute(asked).fetchone()[0])


def few(contestant: Queue, tail: int) -> str:
    """Counts no further than it must: it is asked every few milliseconds."""
    some = f"{contestant.unfinished} limit {tail + 1}"
    return f"select count(*) from ({some}) as unfinished"  # noqa: S608 – no stranger writes it
