"""The grants on the page about PostgreSQL are enough for a node, and its queries run."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from duly import Duly
from tests.app.waiting import eventually

PAGE = (Path(__file__).parents[2] / "docs/postgresql.md").read_text()
_, GRANTS, LONG_TRANSACTIONS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
ROLE = "duly_test_app"


@pytest.fixture
def granted_url(postgres_url: str) -> Iterator[str]:
    """The URL of a role with the rights that the page grants, and no others."""
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"create role {ROLE} login")
        try:
            owner.execute(re.sub(r"\bto app;", f"to {ROLE};", GRANTS).encode())
            yield postgres_url.replace("//postgres@", f"//{ROLE}@")
        finally:
            owner.execute(f"drop owned by {ROLE}; drop role {ROLE}")


def test_a_role_with_the_grants_fires_schedules_and_runs_jobs(granted_url: str) -> None:
    app = Duly(granted_url)

    @app.task
    def double(number: int) -> int:
        return 2 * number

    with app.running():
        app.schedules.add("every 1s", double.bind(1), name="each second")
        assert double.enqueue(21).result("20s") == 42
        fired = partial(app.jobs.count, "schedule:'each second' state:succeeded")
        eventually(lambda: fired() > 0, "a run of the schedule")
    app.close()


def test_the_query_for_long_transactions_runs(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(LONG_TRANSACTIONS.encode()).fetchall() == []
