"""The statements that are sent all day find their rows through an index, whatever is in the tables.

Plans are asked for on tables that are empty and never looked at by the planner, and on tables with
many schedules, jobs and a long history; for values that are known and for any values.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from duly.store.database import Dialect
from duly.store.migrate import migrations
from duly.store.postgres.connections import PLANS
from duly.store.sqlite.connection import connect, split_script
from duly.store.statements import statements

NOW = 1_800_000_000_000_000
SQLITE = Dialect("sqlite", skip_locked=False, partitions=False, writes_at_once=False)
POSTGRES = Dialect("postgres")

# What a worker asks for when it looks for work.
REQUEST: dict[str, object] = {
    "worker": 1, "queue": "default", "tasks": ["work"], "limit": 100, "shelf": 0,
    "floor": 0, "free": '{"gpu": 1}',
}  # fmt: skip

# … and in which order, on a fair queue.
FAIRLY: dict[str, object] = {
    **REQUEST, "kinds": '[{"task": "work", "kind": ""}]', "tenants": ["one", "two"], "share": 10,
    "each": 10,
}  # fmt: skip

# Each hot statement, with the table that is large and the values of a usual call.
HOT: dict[str, tuple[str, dict[str, object]]] = {
    "due_schedules": ("schedule", {"limit": 200, "zone_data": "2026f", "patience": 60_000_000}),
    "next_due": ("schedule", {}),
    "advance_schedules": ("schedule", {"rows": '[{"id": 7, "revision": 0}]'}),
    "hold_schedules": ("schedule", {"ids": [7]}),
    "hold_schedules_briefly": ("schedule", {"ids": [7]}),
    "live_jobs": ("job", {"ids": [7]}),
    "hold_live_jobs": ("job", {"ids": [7]}),
    "claim": ("job", REQUEST),
    "claim_held": ("job", REQUEST),
    "finish_and_claim": (
        "job",
        {**REQUEST, "ids": [7], "fences": [1], "results": ["1"], "keeps": [1]},
    ),
    "ready_shelves": ("job", {"queues": ["default", "other"], "tasks": ["work"]}),
    "claim_of_tasks": ("job", {**REQUEST, "among": ["work"], "share": 100, "held": 0}),
    "kinds": ("job", REQUEST),
    "candidates": ("job", {**REQUEST, "kinds": '[{"task": "work", "kind": "+"}]', "share": 100}),
    "passed_limits": ("job", {**REQUEST, "kinds": '[{"task": "work", "kind": "+"}]', "share": 20}),
    "oldest_of_tasks": ("job", REQUEST),
    "claim_of_tenants": ("job", FAIRLY),
    "candidates_of_tenants": ("job", FAIRLY),
    "waiting_tenants": ("job", {**FAIRLY, "start": ""}),
    "running_in_queue": ("job", {"queue": "default"}),
    "busy_queues": ("job", {}),
    "unknown_jobs": (
        "job",
        {"queue": "default", "tasks": ["work"], "patience": 1, "limit": 100},
    ),
    "free_parked": (
        "job",
        {"rows": '[{"limit_name": "limit 3", "count": 2}]', "tasks": ["work"], "most": 100},
    ),
    "free_unfit_jobs": (
        "job",
        {
            "known": '[{"task": "work", "waits": "signature", "low": "", "high": "f00d"}]',
            "limit": 100,
        },
    ),
    "lost_jobs": ("job", {"after": 0, "margin": 2_000_000, "limit": 100}),
    "keep_plain": ("job", {"rows": "[[7, null, null]]", "fence": 1}),
    "finish_plain": ("job", {"ids": [7], "fence": 1}),
    "hold_jobs": ("job", {"rows": '[{"id": 7, "fence": 1}]'}),
    "forget_jobs": ("job", {"ids": [7]}),
    "ready_due_jobs": ("job", {"limit": 100}),
    "dispatcher_facts": ("job", {}),
    "overdue_jobs": ("job", {"limit": 100}),
    "keep_history": ("job", {"rows": '[{"id": 7}]'}),
    "any_unseen": ("event", {}),
    "unseen_events": ("event", {"limit": 200, "at": -1, "id": 0}),
    "later_events": ("event", {"low": "a.b", "high": "a.b", "since": NOW, "ahead": 2_000}),
    "see_events": ("event", {"ids": [7]}),
    "reacting_schedules": ("schedule", {}),
    "key_holders": ("job", {"rows": '[{"task": "work", "key": "k"}]'}),
}

# Those that are asked for by every worker all day, and the index that was made for each.
MADE_FOR = {
    "claim": "job_ready",
    "claim_held": "job_ready",
    "finish_and_claim": "job_ready",
    "ready_shelves": "job_task",
    "claim_of_tasks": "job_task",
    "kinds": "job_needs",
    "candidates": "job_needs",
    "passed_limits": "job_needs",
    "busy_queues": "job_ready",
    "waiting_tenants": "job_fair",
    "claim_of_tenants": "job_fair",
    "candidates_of_tenants": "job_fair",
    "oldest_of_tasks": "job_task",
    "running_in_queue": "job_running",
    "lost_jobs": "job_running",
    "free_parked": "job_waits",
    "free_unfit_jobs": "job_unfit",
    "any_unseen": "event_unseen",
    "unseen_events": "event_unseen",
    "reacting_schedules": "schedule_reacting",
}

JOB = (
    "id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, state, "
    "created_at, due_at, ready_at, late, attempt, crashes, fence, reason"
)
A_JOB = (
    "n, 'work', '{{}}', 'default', 0, '', '', '', '[]', 'api', 1, {state}, "
    "{now}, {now}, {now} + n, 'skip', 0, 0, 0, ''"
)
SCHEDULE = (
    "id, name, task, args, rule, policies, queue, priority, tenant, submitter, title, tags, owner, "
    "version, created_at, cursor, next_at, revision, runs, zone_data"
)
A_SCHEDULE = (
    "n, 'schedule ' || n, 'work', '{{}}', 'every 1h', '{{}}', 'default', 0, '', '', '', '[]', "
    "'api', 1, {now}, {now}, {now} + n, 0, 0, '2026f'"
)
STATE = (
    "case when n % 100 = 1 then 'running' when n % 3 = 0 then 'ready' "
    "when n % 3 = 1 then 'scheduled' else 'blocked' end"
)
WAITS = "case n % 12 when 5 then 'limit' when 8 then 'worker' when 11 then 'signature' end"
LIMITS = "case when n % 30 = 0 then '[]' end"
NUMBERS = (
    "(with recursive s(n) as (select 1 union all select n + 1 from s where n < {}) select n from s)"
)


def filling(series: str, prefix: str) -> list[str]:
    """Statements that make 5,000 schedules and jobs in every state, and 20,000 that were."""
    job, ended = A_JOB.format(now=NOW, state=STATE), A_JOB.format(now=NOW, state="'succeeded'")
    schedule = A_SCHEDULE.format(now=NOW)
    return [
        f"insert into {prefix}schedule ({SCHEDULE}) select {schedule} from {series.format(5_000)}",
        f"insert into {prefix}job ({JOB}, rank, request, limits, waits, waits_for) "
        f"select {job}, n, n, {LIMITS}, {WAITS}, 'limit ' || n % 50 from {series.format(5_000)}",
        f"insert into {prefix}history ({JOB}, ended_at, request) select {ended}, {NOW}, n "
        f"from {series.format(20_000)}",
        f"insert into {prefix}event (id, name, payload, submitter, tenant, at, seen) "
        f"select n, 'a.' || n % 9, '{{}}', '', '', {NOW} - n, n > 20 "
        f"from {series.format(20_000)}",
    ]


@pytest.fixture
def sqlite() -> Iterator[sqlite3.Connection]:
    connection = connect(":memory:")
    for migration in migrations(SQLITE):
        for statement in split_script(migration.script):
            connection.execute(statement)
    yield connection
    connection.close()


@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
@pytest.mark.parametrize("name", [name for name in HOT if name in statements(SQLITE)])
def test_sqlite_finds_its_rows_through_an_index(
    sqlite: sqlite3.Connection, name: str, full: bool
) -> None:
    if full:
        for statement in filling(NUMBERS, "duly_"):
            sqlite.execute(statement)
        sqlite.execute("analyze")
    table, values = HOT[name]
    given = {
        key: json.dumps(value) if isinstance(value, list) else value
        for key, value in values.items()
    }
    explained = f"explain query plan {statements(SQLITE)[name]}"
    plan = [row[3] for row in sqlite.execute(explained, {**given, "now": NOW})]
    scans = rf"SCAN (duly_)?{table}\b(?!.*INDEX).*"
    assert [step for step in plan if re.fullmatch(scans, step)] == []
    if name in MADE_FOR:
        assert f"INDEX duly_{MADE_FOR[name]} " in "\n".join([*plan, ""]).replace("\n", " ")


def test_the_next_tenant_is_one_step_past_other_shelves_tasks_and_kinds(
    sqlite: sqlite3.Connection,
) -> None:
    given = {"queue": "default", "shelf": 0, "kinds": "[]", "start": "", "limit": 10}
    explained = f"explain query plan {statements(SQLITE)['waiting_tenants']}"
    plan = "\n".join(row[3] for row in sqlite.execute(explained, given))
    step = "duly_job_fair (queue=? AND shelf=? AND task=? AND <expr>=? AND tenant>?)"
    assert plan.count(step) == 2


@pytest.fixture
def postgres(pg_dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        for migration in migrations(POSTGRES):
            connection.execute(migration.script.encode())
        yield connection


@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
def test_postgres_finds_its_rows_through_an_index(postgres: psycopg.Connection, full: bool) -> None:
    if full:
        postgres.execute(f"select duly.make_day('history', {NOW})".encode())
        for statement in filling("generate_series(1, {}) as n", "duly."):
            postgres.execute(statement.encode())
        postgres.execute("analyze")
    plans = {
        (mode, name): explained(postgres, name, mode)
        for mode in ("force_custom_plan", "force_generic_plan")
        for name in HOT
    }
    scans = {key: plan for key, plan in plans.items() if f"Seq Scan on {HOT[key[1]][0]}" in plan}
    assert scans == {}
    if full:
        assert {
            (mode, name): plan
            for (mode, name), plan in plans.items()
            if name in MADE_FOR and not re.search(rf"\b{MADE_FOR[name]}\b", plan)
        } == {}


def explained(connection: psycopg.Connection, name: str, mode: str) -> str:
    """The plan, under the settings of the store's own connections."""
    for setting, value in {**PLANS, "plan_cache_mode": mode}.items():
        connection.execute(f"set {setting} = {value}".encode())
    with prepared(connection, name, HOT[name][1]) as call:
        return "\n".join(row[0] for row in connection.execute(f"explain {call}".encode()))


@contextmanager
def prepared(connection: psycopg.Connection, name: str, given: dict[str, object]) -> Iterator[str]:
    """Prepare a statement; yield the text that executes it with these values."""
    text = statements(POSTGRES)[name]
    names = list(dict.fromkeys(re.findall(r"(?<!:):(\w+)", text)))
    for place, key in enumerate(names, 1):
        text = re.sub(rf"(?<!:):{key}\b", f"${place}", text)
    values = ", ".join(literal({**given, "now": NOW}[key]) for key in names)
    connection.execute(f"prepare hot as {text}".encode())
    try:
        yield f"execute hot{f'({values})' if values else ''}"
    finally:
        connection.execute("deallocate hot")


def literal(value: object) -> str:
    if isinstance(value, list):
        inside = ", ".join(literal(one) for one in value)
        return f"array[{inside}]"
    if value is None:
        return "null"
    return f"'{value}'" if isinstance(value, str) else str(value)
