"""Databases for one test each, copied from one that was given its tables once.

Making the tables takes a second on a busy machine, and copying them a twentieth of that.
"""

import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Composable, Identifier

from duly.store.connect import connect
from duly.store.migrate import migrate
from tests.infrastructure.loops import finished
from tests.infrastructure.postgres import at_database, drop

PLAINLY = SQL("")


@dataclass(frozen=True)
class Home:
    """Where jobs are."""

    url: str
    question: str  # that tells their numbers

    @property
    def path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    def through(self, driver: str) -> str:
        """The URL as SQLAlchemy writes it."""
        return self.url.replace("://", f"+{driver}://", 1)

    def is_quiet(self) -> bool:
        """Whether nobody has left a transaction open."""
        if self.url.startswith("sqlite"):
            return self._can_be_written()
        others = (
            "select 1 from pg_stat_activity where datname = current_database()"
            " and state like 'idle in transaction%'"
        )
        with psycopg.connect(self.url) as connection:
            return connection.execute(others).fetchone() is None

    def _can_be_written(self) -> bool:
        with closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("begin immediate")
            except sqlite3.OperationalError:
                return False
        return True


@dataclass(frozen=True)
class Models:
    """A database of each kind, with tables and without rows."""

    server: str
    name: str
    file: Path

    @contextmanager
    def on_postgres(self) -> Iterator[Home]:
        template = SQL("template {} strategy file_copy").format(Identifier(self.name))
        with new_database(self.server, template) as name:
            yield at_postgres(at_database(self.server, name))

    @contextmanager
    def on_sqlite(self, folder: Path) -> Iterator[Home]:
        yield at_sqlite(Path(shutil.copy(self.file, folder)))


@contextmanager
def models(server: str, folder: Path) -> Iterator[Models]:
    file = folder / "duly.db"
    with new_database(server) as name:
        for url in (at_database(server, name), f"sqlite:///{file}"):
            finished(furnish(url))
        yield Models(server, name, file)


def at_postgres(url: str) -> Home:
    return Home(url, "select id from duly.job order by id")


def at_sqlite(file: Path) -> Home:
    return Home(f"sqlite:///{file}", "select id from duly_job order by id")


async def furnish(url: str) -> None:
    made = connect(url).database
    await made.open()
    await migrate(made)
    await made.close()


@contextmanager
def new_database(server: str, how: Composable = PLAINLY) -> Iterator[str]:
    name = f"duly_test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(SQL("create database {} {}").format(Identifier(name), how))
        yield name
        drop(connection, name)
