"""What a hot statement reads does not grow with what waits, runs or is open besides.

The tables hold a crowd of everything that the statement is not about: jobs of another queue, of a
task that this worker does not know, of resources that it does not have, flows that are open, steps
that wait for events. Work is counted, not timed: rows and pages on PostgreSQL, instructions of the
virtual machine on SQLite.

On PostgreSQL a plan is kept as long as its connection, and may be older than the crowd: so it is
asked for in every state in which the tables may have been when it was made. In all of them, with
plans for any values and for known ones, on every version, a statement has the same plan: no cost
that the planner estimates may decide. ``one_plan.txt`` lists the indexes.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.store.migrate import migrations
from duly.store.postgres.connections import PLANS
from duly.store.statements import statements
from tests.store.test_plans import (
    A_JOB,
    A_SCHEDULE,
    HOT,
    JOB,
    NOW,
    NUMBERS,
    POSTGRES,
    REQUEST,
    SCHEDULE,
    SQLITE,
    literal,
    sqlite,
)

__all__ = ["sqlite"]

CROWD = 4_000
# A claim of ten jobs writes ten rows into each of their indexes; whoever walks past a crowd reads
# thousands.
MOST_ROWS = 600
MOST_PAGES = 600
MOST_INSTRUCTIONS = 30_000

# Numbers of the first job of each crowd.
MINE, ELSEWHERE, FLOWS, AWAITING, LATER, PARKED, FOREIGN, NEEDY, LIMITED, BEHIND, BLOCKED, FAIR = (
    n * 1_000_000 for n in range(1, 13)
)
ENDED = 13_000_000
RUNNING = [7, 8, 9]
READY = [MINE + 1, MINE + 2]
NEED = json.dumps({"gpu": 1})
KINDS = json.dumps([{"task": "work", "kind": kind} for kind in ("", "+", NEED, f"+{NEED}")])

TEN = {**REQUEST, "limit": 10, "tasks": ["work", "other"]}
FAIRLY = {
    **TEN, "queue": "fair", "kinds": KINDS, "tenants": ["", "one"], "share": 5, "each": 5,
}  # fmt: skip
# Each hot statement with the values of a usual call.
CALLS: dict[str, dict[str, object]] = {
    **{name: values for name, (_, values) in HOT.items()},
    "advance_schedules": {
        "rows": json.dumps([
            {
                "id": 7,
                "revision": 0,
                "runs": 0,
                "cursor": NOW,
                "next_at": NOW + 1,
                "zone_data": "2026f",
            }
        ])
    },
    "claim": TEN,
    "claim_held": TEN,
    "claim_chosen": {**TEN, "ids": READY},
    "finish_and_claim": {
        **TEN, "ids": RUNNING, "fences": [1, 1, 1], "results": ["1"], "keeps": [1],
    },
    "claim_of_tasks": {**TEN, "queue": "shared", "among": ["work"], "share": 10, "held": 0},
    "ready_shelves": {"queues": ["default", "shared", "elsewhere"], "tasks": ["work"]},
    "kinds": TEN,
    "candidates": {**TEN, "kinds": KINDS, "share": 10},
    "passed_limits": {**TEN, "kinds": KINDS, "share": 10},
    "oldest_of_tasks": {**TEN, "queue": "fair"},
    "claim_of_tenants": FAIRLY,
    "candidates_of_tenants": {**FAIRLY, "shelf": 3},
    "waiting_tenants": {**FAIRLY, "start": ""},
    "unknown_jobs": {"queue": "default", "tasks": ["work"], "patience": 1, "limit": 10},
    "hold_unknown_jobs": {"ids": READY},
    "ready_due_jobs": {"limit": 10},
    "overdue_jobs": {"limit": 10},
    "hurry_jobs": {"ids": READY, "priority": 50},
    "hold_full": {
        "rows": json.dumps([{"id": n, "limit_name": "limit 3", "reason": ""} for n in READY])
    },
    "keep_history": {
        "rows": json.dumps([
            {"id": n, "state": "failed", "crashes": 0, "reason": ""} for n in RUNNING
        ])
    },
    "keep_failed": {
        "rows": json.dumps([
            {"id": n, "state": "failed", "crashes": 0, "reason": ""} for n in RUNNING
        ])
    },
    "keep_plain": {"rows": json.dumps([[n, None, None] for n in RUNNING]), "fence": 1},
    "finish_plain": {"ids": RUNNING, "fence": 1},
    "forget_jobs": {"ids": RUNNING},
    "forget_signals": {"ids": RUNNING},
    "hold_jobs": {"rows": json.dumps([{"id": n, "fence": 1} for n in RUNNING])},
    "hold_speakers": {"rows": json.dumps([{"id": n, "fence": 1} for n in RUNNING])},
    "hold_waiting_jobs": {"ids": READY},
    "hold_overdue_jobs": {"ids": READY},
    "peek_jobs": {"ids": READY},
    "return_jobs": {
        "rows": json.dumps([
            {"id": n, "state": "ready", "ready_at": NOW, "uncounted": 0, "crashes": 0, "reason": ""}
            for n in RUNNING
        ])
    },
    "held_jobs": {"worker": 1},
    "send_signals": {
        "rows": json.dumps([{"job_id": n, "what": "cancel", "reason": ""} for n in RUNNING])
    },
    "signals_for": {"worker": 1},
    "told_while_waiting": {"limit": 10},
    "detach_jobs": {
        "rows": json.dumps([{"id": n, "reason": "", "crashes": 0} for n in RUNNING])
    },
    "hold_flow_jobs": {"ids": [FLOWS + 1]},
    "no_deadline": {"flow": FLOWS + 1},
    "running_flows": {"ids": [FLOWS + 1]},
    "flow_roots": {"ids": [FLOWS + 1]},
    "take_over": {
        "rows": json.dumps([{"id": n, "due_at": NOW, "fire_id": 1, "late": "skip"} for n in READY])
    },
    "adopt_jobs": {"rows": json.dumps([{"id": n, "schedule_id": 1, "fire_id": 1} for n in READY])},
    "free_schedules": {"rows": json.dumps([{"id": 7, "next_at": NOW}])},
    "add_fired_jobs": {
        "rows": json.dumps([
            {
                "id": 999, "schedule_id": 7, "fire_id": 1, "state": "ready", "due_at": NOW,
                "ready_at": NOW, "late": "skip", "priority": 0, "reason": "", "request": 999,
                "unawaited": True,
            }
        ])
    },
    "write_fires": {
        "schedules": json.dumps([
            {
                "id": 7, "revision": 0, "runs": 0, "cursor": NOW, "next_at": NOW + 1,
                "zone_data": "2026f",
            }
        ]),
        "fires": json.dumps([
            {
                "id": 998, "schedule_id": 7, "due_at": NOW, "covers_from": NOW, "count": 1,
                "outcome": "queued", "reason": "", "job_id": 999, "series": 0,
            }
        ]),
        "jobs": json.dumps([
            {
                "id": 999, "schedule_id": 7, "fire_id": 998, "state": "ready", "due_at": NOW,
                "ready_at": NOW, "late": "skip", "priority": 0, "reason": "", "request": 999,
                "unawaited": True,
            }
        ]),
        "holder": "a process",
        "block": 1,
    },
    "hold_limits": {"names": ["limit 3", "limit 4"]},
    "read_locked_limits": {"names": ["limit 3", "limit 4"], "queue": "default", "tasks": ["work"]},
    "write_limits": {"rows": json.dumps([{"name": "limit 3", "arrival": 1}])},
    "set_opening": {"rows": json.dumps([{"name": "limit 3", "opens_at": NOW}])},
    "opening_limits": {"limit": 10},
    "any_unanswered": {},
    "compare_steps": {"ids": [AWAITING + 1, AWAITING + 2]},
    "compare_events": {"ids": [7, 8]},
    "answered_jobs": {"limit": 10},
    "forget_compared": {"rows": "[[7, 0]]"},
    "drop_holdings": {"ids": RUNNING},
    "progress": {},
    "schedules_ahead": {"ahead": 1, "limit": 10},
    "awaiting_jobs": {"limit": 10},
    "stranded_blocked": {"limit": 10},
    "living_workers": {},
    "worker_told": {"id": 1},
    "renew_lease": {"id": 1, "lease": 1, "running": 1},
}  # fmt: skip
# These count up to their limits, and say so.
COUNTS = {"progress"}
# The indexes by which each statement finds its rows, on every PostgreSQL and in every state.
ONE_PLAN = {
    name: indexes.split(", ") if indexes else []
    for name, indexes in (
        re.split(": ?", line)
        for line in (Path(__file__).parent / "one_plan.txt").read_text().splitlines()
    )
}
# Of the events of one name, the first since a moment: by name, or by time.
VARIES = {"answered_jobs"}


def crowd(series: str, prefix: str, *, foreign: int = CROWD, ended: int = CROWD) -> Iterator[str]:
    """Statements that make a few jobs for this worker, and crowds of others.

    ``foreign`` jobs are of a task that this worker does not know, and come first.
    """

    def jobs(
        first: int, state: str, *, queue: str = "default", count: int = CROWD, **more: str
    ) -> str:
        task, tenant = more.pop("task", "'work'"), more.pop("tenant", "''")
        given = {"rank": f"{NOW} + n", "request": f"{first} + n", **more}
        return (
            f"insert into {prefix}job ({JOB}, {', '.join(given)}) select {first} + n, {task}, "
            f"'{{}}', '{queue}', 0, {tenant}, '', '', '[]', 'api', 1, '{state}', {NOW}, {NOW}, "
            f"{NOW} + n, 'skip', 0, 0, 1, '', {', '.join(given.values())} "
            f"from {series.format(count)}"
        )

    yield jobs(0, "running", worker="1", claimed_at=f"{NOW}", count=100)
    yield jobs(MINE, "ready", count=50)
    yield jobs(MINE + CROWD, "ready", queue="shared", count=50)
    yield jobs(FOREIGN, "ready", queue="shared", task="'foreign'", rank=f"{NOW} - n", count=foreign)
    yield jobs(ELSEWHERE, "ready", queue="elsewhere")
    yield jobs(NEEDY, "ready", needs=f"'{NEED}'", shelf="3", rank=f"{NOW} - n")
    yield jobs(LIMITED, "ready", needs=f"'{NEED}'", shelf="3", limits="'[]'", rank=f"{NOW} - n")
    yield jobs(FAIR, "ready", queue="fair", fair="(1 = 1)")
    yield jobs(FAIR + CROWD, "ready", queue="fair", fair="(1 = 1)", needs=f"'{NEED}'", shelf="3")
    # Jobs of other tenants, which come first and which this worker cannot run.
    first = {"queue": "fair", "fair": "(1 = 1)", "tenant": "'a' || n", "rank": f"{NOW} - n"}
    yield jobs(FAIR + 2 * CROWD, "ready", task="'foreign'", count=CROWD, **first)
    yield jobs(FAIR + 3 * CROWD, "ready", shelf="3", needs="""'{"tpu": 1}'""", count=CROWD, **first)
    yield jobs(
        FLOWS, "running", waits="'steps'", claimed_at=f"{NOW} + n", deadline=f"{NOW} + n + 1"
    )
    yield jobs(
        AWAITING, "blocked", waits="'event'", waits_for="'paid:' || n", parent=f"{FLOWS} + n"
    )
    yield jobs(LATER, "scheduled")
    yield jobs(PARKED, "blocked", waits="'limit'", waits_for="'limit ' || n % 2000")
    yield jobs(BLOCKED, "blocked", schedule_id="n + 1")
    yield jobs(BEHIND, "blocked", schedule_id="1")
    yield jobs(BEHIND + CROWD, "ready", schedule_id="1", queue="elsewhere", count=1)
    was = A_JOB.format(now=NOW, state="'succeeded'").replace("n, ", f"{ENDED} + n, ", 1)
    yield (
        f"insert into {prefix}history ({JOB}, ended_at, request, schedule_id) "
        f"select {was}, {NOW} + n, n, n % 100 from {series.format(ended)}"
    )
    schedule = A_SCHEDULE.format(now=NOW)
    yield f"insert into {prefix}schedule ({SCHEDULE}) select {schedule} from {series.format(CROWD)}"
    yield (
        f"insert into {prefix}flow (id, root, steps, remaining, failed, reason, opened_at) "
        f"select {FLOWS} + n, {FLOWS} + n, 1, 1, 0, '', {NOW} from {series.format(CROWD)}"
    )
    yield (
        f"insert into {prefix}named_limit (name, template, arrival, used_at) "
        f"select 'limit ' || n, 'limit', 0, {NOW} from {series.format(CROWD)}"
    )
    yield (
        f"insert into {prefix}event (id, name, key, payload, submitter, tenant, at, seen) "
        f"select n, 'paid', 'never ' || n, '{{}}', '', '', {NOW} - n, n > 20 "
        f"from {series.format(CROWD)}"
    )


class Tables:
    """The tables on a real server, and the hot statements, prepared as by a worker's connection."""

    def __init__(self, connection: psycopg.Connection, mode: str, stack: ExitStack) -> None:
        self._connection = connection
        self._stack = stack
        self._given: dict[str, str] = {}
        for name, value in {**PLANS, "plan_cache_mode": mode}.items():
            self.run(f"set {name} = {value}")
        for migration in migrations(POSTGRES):
            self.run(migration.script)
        self.run(f"select duly.make_day(name, {NOW}) from unnest(array['history', 'fire']) as name")
        for (table,) in self.run("select tablename from pg_tables where schemaname = 'duly'"):
            if not table.startswith(("history", "fire")):
                self.run(f"alter table duly.{table} set (autovacuum_enabled = off)")
        self.run(
            "insert into duly.worker (id, name, queues, tasks, started_at, lease_until) "
            f"values (1, 'w', '[]', '[]', {NOW}, {2 * NOW})"
        )

    def run(self, text: str) -> list[tuple[Any, ...]]:
        found = self._connection.execute(text.encode())
        return found.fetchall() if found.description else []

    def plan(self) -> None:
        """Prepare every hot statement, and let the server plan it now."""
        for name, values in CALLS.items():
            text = statements(POSTGRES)[name]
            words = list(dict.fromkeys(re.findall(r"(?<!:):(\w+)", text)))
            for place, word in enumerate(words, 1):
                text = re.sub(rf"(?<!:):{word}\b", f"${place}", text)
            given = ", ".join(literal({**values, "now": NOW}[word]) for word in words)
            self._given[name] = f"execute {name}{f'({given})' if given else ''}"
            self.run(f"prepare {name} as {text}")
            self.run(f"explain {self._given[name]}")

    def fill(self, **sizes: int) -> None:
        for text in crowd("generate_series(1, {}) as n", "duly.", **sizes):
            self.run(text)

    def churn(self) -> None:
        """Leave a dead row in every index in front of each that lives."""
        for text in (
            "update duly.job set rank = rank",
            "update duly.job set rank = rank + 1 where state = 'ready'",
            f"delete from duly.job where id > {FOREIGN} and id <= {FOREIGN + CROWD // 2}",
            "update duly.schedule set next_at = next_at + 1",
        ):
            self.run(text)
        for name in CALLS:  # who comes first marks what is dead
            self.read(name)

    def look_on(self) -> None:
        """Let somebody look at the tables, and keep what they see until the end of the test."""
        onlooker = self._stack.enter_context(psycopg.connect(self._connection.info.dsn))
        onlooker.execute("set transaction isolation level repeatable read")
        onlooker.execute("select count(*) from duly.job")

    def indexes(self, name: str) -> list[str]:
        """Return the indexes of the plan, and with "all of" those that are read as a whole."""
        [[[found]]] = self.run(f"explain (format json) {self._given[name]}")
        return sorted(set(_indexes(found["Plan"])))

    def read(self, name: str) -> tuple[int, int]:
        """Return how many rows and pages a statement reads. What it writes is undone."""
        self.run("begin")
        try:
            asked = f"explain (analyze, buffers, format json) {self._given[name]}"
            [[[found]]] = self.run(asked)
        finally:
            self.run("rollback")
        plan = found["Plan"]
        return _rows(plan), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def _rows(plan: Mapping[str, Any]) -> int:
    """Return how many rows the nodes of a plan gave or dropped, all together."""
    dropped = sum(count for word, count in plan.items() if word.startswith("Rows Removed by"))
    rows = plan["Actual Loops"] * (plan["Actual Rows"] + dropped)
    return int(rows) + sum(_rows(part) for part in plan.get("Plans", ()))


def _indexes(plan: Mapping[str, Any], *, limited: bool = False) -> Iterator[str]:
    """Yield the index of each scan of a plan. The first rows of an index are not all of it."""
    limited = limited or plan["Node Type"] == "Limit"
    index = re.sub(r"^(history|fire)_\d+_", r"\1_", plan.get("Index Name", ""))
    if index:
        yield index if limited or "Index Cond" in plan else f"all of {index}"
    elif plan["Node Type"] == "Seq Scan":
        yield f"all of {plan['Relation Name']}"
    for part in plan.get("Plans", ()):
        yield from _indexes(part, limited=limited)


def full(tables: Tables) -> None:
    tables.fill()
    tables.plan()


def full_and_analyzed(tables: Tables) -> None:
    tables.fill()
    tables.run("analyze")
    tables.plan()


def analyzed_while_empty(tables: Tables) -> None:
    tables.run("vacuum analyze")
    tables.fill()
    tables.plan()


def planned_while_new(tables: Tables) -> None:
    tables.plan()
    tables.fill()


def planned_while_vacuumed_and_empty(tables: Tables) -> None:
    tables.run("vacuum analyze")
    tables.plan()
    tables.fill()


def planned_while_full_and_churned(tables: Tables) -> None:
    tables.fill()
    tables.run("analyze")
    tables.plan()
    tables.churn()


def planned_while_new_then_somebody_looks_on(tables: Tables) -> None:
    tables.plan()
    tables.fill()
    tables.look_on()
    tables.churn()


def planned_while_all_jobs_were_of_another_task(tables: Tables) -> None:
    """Let the planner believe that all jobs are of one task, and half of them of schedules."""
    others, *rest = sorted(
        crowd("generate_series(1, {}) as n", "duly.", foreign=5 * CROWD),
        key=lambda text: "'shared'" not in text or "'foreign'" not in text,
    )
    tables.run(others)
    tables.run("update duly.job set schedule_id = id where id % 2 = 0")
    tables.run("analyze")
    tables.plan()
    for text in rest:
        tables.run(text)


def planned_while_new_then_huge(tables: Tables) -> None:
    tables.plan()
    tables.fill(foreign=200_000, ended=1_000_000)


another_past = pytest.mark.thorough("repeats with statistics of another past")
STATES = (
    full,
    pytest.param(full_and_analyzed, marks=another_past),
    pytest.param(analyzed_while_empty, marks=another_past),
    planned_while_new,
    pytest.param(planned_while_vacuumed_and_empty, marks=another_past),
    planned_while_full_and_churned,
    planned_while_all_jobs_were_of_another_task,
    pytest.param(planned_while_new_then_somebody_looks_on, marks=another_past),
    pytest.param(planned_while_new_then_huge, marks=pytest.mark.thorough("writes a million rows")),
)


behind_a_pooler = pytest.mark.thorough("repeats with the plans that a call has behind a pooler")


# Workers have plans for any values; behind a pooler each call has a plan of its own.
@pytest.mark.parametrize(
    "mode", ["force_generic_plan", pytest.param("force_custom_plan", marks=behind_a_pooler)]
)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.every_postgres
def test_on_postgres_each_statement_has_one_plan_that_reads_no_crowd(
    pg_dsn: str, state: Callable[[Tables], None], mode: str
) -> None:
    with ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(pg_dsn, autocommit=True))
        tables = Tables(connection, mode, stack)
        state(tables)
        found = {name: tables.indexes(name) for name in CALLS if name not in VARIES}
        read = {name: tables.read(name) for name in CALLS}
    assert {name: indexes for name, indexes in found.items() if indexes != ONE_PLAN[name]} == {}
    assert {
        name: (rows, pages)
        for name, (rows, pages) in read.items()
        if name not in COUNTS and (rows > MOST_ROWS or pages > MOST_PAGES)
    } == {}


@pytest.mark.parametrize("analyzed", [False, True], ids=["full", "full_and_analyzed"])
def test_on_sqlite_a_crowd_is_not_read(sqlite: sqlite3.Connection, analyzed: bool) -> None:
    for text in crowd(NUMBERS, "duly_"):
        sqlite.execute(text)
    sqlite.execute(
        "insert into duly_worker (id, name, queues, tasks, started_at, lease_until) "
        f"values (1, 'w', '[]', '[]', {NOW}, {2 * NOW})"
    )
    if analyzed:
        sqlite.execute("analyze")
    known = statements(SQLITE)
    done = {
        name: _instructions(sqlite, known[name], CALLS[name]) for name in CALLS if name in known
    }
    assert {
        name: count
        for name, count in done.items()
        if name not in COUNTS and count > MOST_INSTRUCTIONS
    } == {}


def _instructions(connection: sqlite3.Connection, text: str, values: Mapping[str, object]) -> int:
    """Return how many instructions a statement takes. What it writes is undone."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 100
        return 0

    given = {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in {**values, "now": NOW}.items()
    }
    connection.execute("begin")
    connection.set_progress_handler(step, 100)
    try:
        connection.execute(text, given).fetchall()
    finally:
        connection.set_progress_handler(None, 0)
        connection.execute("rollback")
    return count
