"""The SQL on the pages runs: grants, queries, and the page of the schema has every column."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from duly import Duly
from tests.app.waiting import eventually

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/postgresql.md").read_text()
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


SCHEMA = (ROOT / "docs/schema.md").read_text()
COLUMNS = """
select relname, attname
  from pg_attribute
  join pg_class on pg_class.oid = attrelid
 where relnamespace = 'duly'::regnamespace and relkind in ('r', 'p') and not relispartition
   and attnum > 0 and relname <> 'migration'
"""


def on_the_page() -> set[tuple[str, str]]:
    tables = re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", SCHEMA, re.MULTILINE | re.DOTALL)
    return {
        (table, column)
        for table, rows in tables
        for column in re.findall(r"^\| `(\w+)`", rows, re.MULTILINE)
    }


def test_the_page_of_the_schema_has_every_table_and_column(
    postgres_url: str, tmp_path: Path
) -> None:
    with psycopg.connect(postgres_url) as connection:
        found = set(connection.execute(COLUMNS))
    file = str(tmp_path / "duly.db")
    Duly(file).schedules.list()
    with closing(sqlite3.connect(file)) as lite:
        names = [
            name for (name,) in lite.execute("select name from sqlite_master where type = 'table'")
        ]
        for name in set(names) - {"duly_migration"}:
            columns = lite.execute("select name from pragma_table_info(?)", [name])
            found |= {(name.removeprefix("duly_"), column) for (column,) in columns}
    assert on_the_page() == found


def test_a_role_that_can_only_read_runs_the_report_of_the_page(postgres_url: str) -> None:
    report, grants = re.findall(r"```sql\n(.*?)```", SCHEMA, re.DOTALL)
    app = Duly(postgres_url)

    @app.task(retry=None)
    def charge() -> None:
        raise ValueError("no luck")

    with app.running():
        job = charge.enqueue()
        eventually(lambda: job.refresh().state == "failed", "the failure")
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"create role {ROLE} login")
        try:
            owner.execute(re.sub(r"\bto reports;", f"to {ROLE};", grants).encode())
            with psycopg.connect(postgres_url.replace("//postgres@", f"//{ROLE}@")) as reader:
                [(task, count, _)] = reader.execute(report.encode())
                assert (task, count) == ("charge", 1)
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute("update duly.failed set task = 'other'")
        finally:
            owner.execute(f"drop owned by {ROLE}; drop role {ROLE}")


def test_the_tables_that_may_be_read_exist() -> None:
    [named] = re.findall(r"^\| read: .*?\| (.*) \|$", SCHEMA, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", named)) <= {table for table, _ in on_the_page()}
