"""Who looks for a few jobs among many does not read them all: there is an index for each way.

On SQLite the statements say which; on PostgreSQL the planner knows, once it has looked.
"""

import re
import sqlite3

import psycopg
import pytest

from duly.store import job_search
from duly.store.job_search import FIRST, LAST, Way
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
    "flow": 7, "error": "no", "texts": ["no"], "since": NOW - 1_000, "before": NOW + 1_000,
    "after": LAST, "limit": 50, "states": ["ready"], "behind": LAST, "behind_id": LAST,
    "edge": FIRST + 1,
    "examined": 1_000,
    **{f"{word}_like": "*" for word in ("task", "queue", "tenant", "key")},
}  # fmt: skip
BY_NUMBER = "INTEGER PRIMARY KEY"
# The indexes on SQLite, in the order of the plan; and on PostgreSQL a part of the plan: the index,
# its condition where several indexes serve, or nothing where any index does.
MADE_FOR = {
    job_search.LIVING: ([BY_NUMBER], ""),
    job_search.RUNNING: ([BY_NUMBER, "duly_job_running", "duly_job_unattended"], "job_running"),
    job_search.LIVING_OF_SCHEDULE: (["duly_job_schedule"], "Index Cond: (schedule_id"),
    job_search.HISTORY: (["duly_history_ended"], "_ended_at_idx"),
    job_search.HISTORY_OF_SCHEDULE: (["duly_history_schedule"], "_schedule_id_ended_at_idx"),
    job_search.FAILED: (["duly_failed_ended"], "failed_ended"),
}


# What comes out of the index as it is wanted: a page of it ends when it is full.
IN_ORDER = (job_search.LIVING, job_search.HISTORY, job_search.FAILED)


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
    for name in filter(None, (way.find, way.tally, way.edge)):
        asked = f"explain query plan {statements(SQLITE)[name]}"
        plan = [row[3] for row in sqlite.execute(asked, {**given, "now": NOW})]
        steps = [step for step in plan if re.match(r"(SCAN|SEARCH) (job|history|failed)\b", step)]
        if way is job_search.LIVING and name == way.tally:
            assert steps == ["SCAN job"]  # whoever counts all of them has no shorter way
            continue
        assert [
            index for index, step in zip(MADE_FOR[way][0], steps, strict=True) if index not in step
        ] == []
        if way in IN_ORDER and name != way.tally:
            assert not any("TEMP B-TREE" in step for step in plan)


def test_postgres_reads_no_table_as_a_whole(
    postgres: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(f"select duly.make_day('history', {NOW})".encode())
    for statement in filling("generate_series(1, {}) as n", "duly."):
        postgres.execute(statement.encode())
    # Among indexes without rows, the choice would say nothing.
    postgres.execute("update duly.job set schedule_id = id % 500 where id % 2 = 0")
    postgres.execute("analyze")
    for way, (_, index) in MADE_FOR.items():
        for name in filter(None, (way.find, way.edge)):
            monkeypatch.setitem(test_plans.HOT, name, ("job", VALUES))
            for mode in ("force_custom_plan", "force_generic_plan"):
                plan = explained(postgres, name, mode)
                assert "Seq Scan" not in plan
                assert index in plan.replace("((", "(")
