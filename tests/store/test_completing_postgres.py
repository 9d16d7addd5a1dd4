"""``test_completing.py`` on PostgreSQL."""

import psycopg
import pytest

from tests.store.postgres.notes import TABLE
from tests.store.test_completing import *  # noqa: F403


@pytest.fixture
def dsn(pg_dsn: str) -> str:
    with psycopg.connect(pg_dsn) as server:
        server.execute(TABLE)
    return pg_dsn
