"""Who looks once a second reads what is new, and not all that there is: an index leads to it."""

import re
import sqlite3

import psycopg
import pytest

from duly.store.statements import statements
from tests.store import test_plans
from tests.store.test_plans import NOW, NUMBERS, SQLITE, explained, filling, postgres, sqlite

__all__ = ["postgres", "sqlite"]

VALUES: dict[str, object] = {
    "since": NOW - 1_000, "until": NOW + 1_000, "first": NOW - 1_000, "last": NOW + 1_000,
    "late": 60_000_000, "limit": 1_000, "step": 60_000_000, "most": 10_001, "oldest": 1_000,
    "before": NOW + 1_000,
}  # fmt: skip
INSTANTS = ("fire_decided", "history_ended", "failed_ended")
# The indexes that each must go by, of every table that may be large.
MADE_FOR = {
    "count_moments": ("fire_decided",),
    "count_moments_by_hour": ("fire_decided",),
    "happened": (*INSTANTS, "job_running"),
    "count_happened": (*INSTANTS, "job_running"),
    "ended_by_step": ("history_ended", "failed_ended"),
    "count_ended": ("history_ended", "failed_ended"),
    "count_retried": ("attempt_ended",),
    "count_fires": ("fire_decided",),
    "schedules_due_before": ("schedule_next",),
    "count_ready_by_queue": ("job_ready",),
    "count_running_by_queue": ("job_running",),
    "count_scheduled_by_queue": ("job_due",),
    "count_ended_by_queue": ("history_ended", "failed_ended"),
    "count_blocked_by_queue": ("job_waits", "job_schedule"),
}
LARGE = "fire|history|failed|job|schedule"


@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
@pytest.mark.parametrize("name", MADE_FOR)
def test_sqlite_goes_by_the_index(sqlite: sqlite3.Connection, name: str, full: bool) -> None:
    if full:
        for statement in filling(NUMBERS, "duly_"):
            sqlite.execute(statement)
        sqlite.execute("analyze")
    asked = f"explain query plan {statements(SQLITE)[name]}"
    plan = [row[3] for row in sqlite.execute(asked, {**VALUES, "now": NOW})]
    assert [step for step in plan if re.fullmatch(rf"SCAN (duly_)?({LARGE})", step)] == []
    for index in MADE_FOR[name]:
        assert f"INDEX duly_{index}" in "\n".join(plan)


def test_postgres_goes_by_the_index(
    postgres: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in ("fire", "history"):
        postgres.execute(f"select duly.make_day('{table}', {NOW})".encode())
    for statement in filling("generate_series(1, {}) as n", "duly."):
        postgres.execute(statement.encode())
    postgres.execute("analyze")
    for name in MADE_FOR:
        monkeypatch.setitem(test_plans.HOT, name, ("job", VALUES))
        for mode in ("force_custom_plan", "force_generic_plan"):
            plan = explained(postgres, name, mode)
            assert not re.search(rf"Seq Scan on ({LARGE})", plan), (name, mode, plan)
