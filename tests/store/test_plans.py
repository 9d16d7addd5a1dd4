"""The statements that are sent all day find their rows through an index, whatever is in the tables.

Plans are asked for on tables that are empty and never looked at by the planner, and on tables with
many schedules, jobs and a long history; for values that are known and for any values.
"""

import re
import sqlite3
from collections.abc import Iterator

import psycopg
import pytest

from duly.store.database import Dialect
from duly.store.migrate import migrations
from duly.store.sqlite.connection import connect, split_script
from duly.store.statements import statements

NOW = 1_800_000_000_000_000

# Each hot statement, with the table that is large and the values of a usual call.
HOT: dict[str, tuple[str, dict[str, object]]] = {
    "due_schedules": ("schedule", {"limit": 200, "zone_data": "2026f", "patience": 60_000_000}),
    "next_due": ("schedule", {}),
    "advance_schedules": ("schedule", {"rows": '[{"id": 7, "revision": 0}]'}),
    "hold_schedules": ("schedule", {"ids": [7]}),
    "live_jobs": ("job", {"ids": [7]}),
    "hold_live_jobs": ("job", {"ids": [7]}),
    "claim": (
        "job",
        {"worker": 1, "fence": 1, "queue": "default", "tasks": ["work"], "limit": 100},
    ),
    "hold_jobs": ("job", {"rows": '[{"id": 7, "fence": 1}]'}),
    "forget_jobs": ("job", {"ids": [7]}),
    "ready_due_jobs": ("job", {"limit": 100}),
    "next_ready": ("job", {}),
    "overdue_jobs": ("job", {"limit": 100}),
    "next_deadline": ("job", {}),
    "keep_history": ("job", {"rows": '[{"id": 7}]'}),
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
    "version, created_at, cursor, next_at, revision, zone_data"
)
A_SCHEDULE = (
    "n, 'schedule ' || n, 'work', '{{}}', 'every 1h', '{{}}', 'default', 0, '', '', '', '[]', "
    "'api', 1, {now}, {now}, {now} + n, 0, '2026f'"
)
STATE = (
    "case n % 4 when 0 then 'ready' when 1 then 'running' "
    "when 2 then 'scheduled' else 'blocked' end"
)
NUMBERS = (
    "(with recursive s(n) as (select 1 union all select n + 1 from s where n < {}) select n from s)"
)


def filling(series: str, prefix: str) -> list[str]:
    """Statements that make 5,000 schedules and jobs in every state, and a history of 20,000."""
    job, ended = A_JOB.format(now=NOW, state=STATE), A_JOB.format(now=NOW, state="'succeeded'")
    schedule = A_SCHEDULE.format(now=NOW)
    return [
        f"insert into {prefix}schedule ({SCHEDULE}) select {schedule} from {series.format(5_000)}",
        f"insert into {prefix}job ({JOB}, rank, request) select {job}, n, n "
        f"from {series.format(5_000)}",
        f"insert into {prefix}history ({JOB}, ended_at, request) select {ended}, {NOW}, n "
        f"from {series.format(20_000)}",
    ]


@pytest.fixture
def sqlite() -> Iterator[sqlite3.Connection]:
    connection = connect(":memory:")
    for migration in migrations(Dialect("sqlite", skip_locked=False, partitions=False)):
        for statement in split_script(migration.script):
            connection.execute(statement)
    yield connection
    connection.close()


@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
@pytest.mark.parametrize("name", HOT)
def test_sqlite_finds_its_rows_through_an_index(
    sqlite: sqlite3.Connection, name: str, full: bool
) -> None:
    if full:
        for statement in filling(NUMBERS, "duly_"):
            sqlite.execute(statement)
        sqlite.execute("analyze")
    dialect = Dialect("sqlite", skip_locked=False, partitions=False)
    table, values = HOT[name]
    given = {key: str(value) if isinstance(value, list) else value for key, value in values.items()}
    explained = f"explain query plan {statements(dialect)[name]}"
    plan = [row[3] for row in sqlite.execute(explained, {**given, "now": NOW})]
    assert [
        step for step in plan if re.fullmatch(rf"SCAN (duly_)?{table}\b(?!.*INDEX).*", step)
    ] == []


@pytest.fixture
def postgres(pg_dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        for migration in migrations(Dialect("postgres")):
            connection.execute(migration.script.encode())
        yield connection


@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
def test_postgres_finds_its_rows_through_an_index(postgres: psycopg.Connection, full: bool) -> None:
    if full:
        postgres.execute(f"select duly.make_day('history', {NOW})".encode())
        for statement in filling("generate_series(1, {}) as n", "duly."):
            postgres.execute(statement.encode())
        postgres.execute("analyze")
    scans = {
        (mode, name): plan
        for mode in ("force_custom_plan", "force_generic_plan")
        for name in HOT
        if f"Seq Scan on {HOT[name][0]}" in (plan := explained(postgres, name, mode))
    }
    assert scans == {}


def explained(connection: psycopg.Connection, name: str, mode: str) -> str:
    """The plan, with sequential scans allowed to win only where no index could serve."""
    text = statements(Dialect("postgres"))[name]
    names = list(dict.fromkeys(re.findall(r"(?<!:):(\w+)", text)))
    for place, key in enumerate(names, 1):
        text = re.sub(rf"(?<!:):{key}\b", f"${place}", text)
    given: dict[str, object] = {**HOT[name][1], "now": NOW}
    values = ", ".join(literal(given[key]) for key in names)
    connection.execute(f"set plan_cache_mode = {mode}".encode())
    # On a table of a page or two the planner is right to read it whole; the question is whether
    # the statement can be answered through an index at all.
    connection.execute("set enable_seqscan = off")
    connection.execute(f"prepare hot as {text}".encode())
    try:
        call = f"explain execute hot{f'({values})' if values else ''}"
        return "\n".join(row[0] for row in connection.execute(call.encode()))
    finally:
        connection.execute("deallocate hot")


def literal(value: object) -> str:
    if isinstance(value, list):
        inside = ", ".join(literal(one) for one in value)
        return f"array[{inside}]"
    return f"'{value}'" if isinstance(value, str) else str(value)
