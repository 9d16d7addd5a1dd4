"""Who looks for a few jobs among many does not read them all: there is an index for each way.

On SQLite the statements say which; on PostgreSQL the planner knows, once it has looked.
"""

import re
import sqlite3

import psycopg
import pytest

from duly.store import finding
from duly.store.finding import FIRST, LAST, Way
from duly.store.statements import statements
from tests.store import test_plans
from tests.store.test_plans import (
    NOW,
    NUMBERS,
    SQLITE,
    explained,
    filling,
    postgres,
    sqlite,
)

__all__ = ["postgres", "sqlite"]

VALUES: dict[str, object] = {
    "task": "work", "queue": "default", "tenant": "", "key": "k", "schedules": [1], "tags": ["x"],
    "error": "no", "texts": ["no"], "since": NOW - 1_000, "before": NOW + 1_000, "after": LAST,
    "limit": 50, "states": ["ready"], "behind": FIRST,
}  # fmt: skip
BY_NUMBER = "INTEGER PRIMARY KEY"
# An index of each database; an empty name: whichever the planner likes, as long as it is one.
MADE_FOR = {
    finding.LIVING: (BY_NUMBER, ""),
    finding.RUNNING: ("duly_job_running", "job_running"),
    finding.LIVING_OF_SCHEDULE: ("duly_job_schedule", "job_schedule"),
    finding.HISTORY: (BY_NUMBER, ""),
    finding.RECENT_HISTORY: ("duly_history_ended", ""),
    finding.HISTORY_OF_SCHEDULE: ("duly_history_schedule", ""),
    finding.FAILED: (BY_NUMBER, ""),
}


@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
@pytest.mark.parametrize("way", MADE_FOR, ids=lambda way: way.find)
def test_sqlite_goes_the_way_that_was_chosen(
    sqlite: sqlite3.Connection, way: Way, full: bool
) -> None:
    if full:
        for statement in filling(NUMBERS, "duly_"):
            sqlite.execute(statement)
        sqlite.execute("analyze")
    given = {name: "[]" if isinstance(value, list) else value for name, value in VALUES.items()}
    for name in (way.find, way.tally):
        asked = f"explain query plan {statements(SQLITE)[name]}"
        plan = [row[3] for row in sqlite.execute(asked, {**given, "now": NOW})]
        [first] = [step for step in plan if re.match(r"(SCAN|SEARCH) job\b", step)]
        assert MADE_FOR[way][0] in first


def test_postgres_reads_no_table_as_a_whole(
    postgres: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(f"select duly.make_day('history', {NOW})".encode())
    for statement in filling("generate_series(1, {}) as n", "duly."):
        postgres.execute(statement.encode())
    postgres.execute("analyze")
    for way, (_, index) in MADE_FOR.items():
        monkeypatch.setitem(test_plans.HOT, way.find, ("job", VALUES))
        plan = explained(postgres, way.find, "force_custom_plan")
        assert "Seq Scan" not in plan
        assert index in plan
