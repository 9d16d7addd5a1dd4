"""Scenes: a database for each way of locking, made once and swept before each test."""

import uuid
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.infrastructure.cluster import Cluster
from tests.infrastructure.loops import finished
from tests.infrastructure.postgres import GivenServer, at_database
from tests.interleaving.stage import Stage, prepare
from tests.store.postgres.interleavings.actors import DIALECTS, Scene


@pytest.fixture(scope="session")
def stages(pg_cluster: Cluster | GivenServer) -> Iterator[dict[str, str]]:
    """A database for each dialect."""
    names = {dialect: f"duly_test_{uuid.uuid4().hex}" for dialect in DIALECTS}
    found = {dialect: at_database(pg_cluster.dsn, name) for dialect, name in names.items()}
    with psycopg.connect(pg_cluster.dsn, autocommit=True) as connection:
        for dialect, name in names.items():
            made = SQL("create database {} strategy file_copy").format(Identifier(name))
            connection.execute(made)
            finished(prepare(found[dialect], DIALECTS[dialect]))
        yield found
        for name in names.values():
            connection.execute(SQL("drop database {} with (force)").format(Identifier(name)))


@pytest.fixture
async def locking(stages: dict[str, str]) -> AsyncIterator[Scene]:
    """Where due schedules are locked when they are read."""
    async with Stage.opened(stages["locking"], dialect=DIALECTS["locking"]) as stage:
        yield Scene(stage)


@pytest.fixture
async def optimistic(stages: dict[str, str]) -> AsyncIterator[Scene]:
    """Where they are read without a lock, and compared when they are set."""
    async with Stage.opened(stages["optimistic"], dialect=DIALECTS["optimistic"]) as stage:
        yield Scene(stage)


again = pytest.mark.thorough("repeats each order with the statements of another dialect")


@pytest.fixture(params=["locking", pytest.param("optimistic", marks=again)])
async def scene(request: pytest.FixtureRequest, stages: dict[str, str]) -> AsyncIterator[Scene]:
    """Both, one after the other."""
    async with Stage.opened(stages[request.param], dialect=DIALECTS[request.param]) as stage:
        yield Scene(stage)
