"""What one schedule has behind it does not delay the others: firing reads a bounded number of rows.

The tables are skewed: one schedule has 20,000 jobs that somebody asked for, and a long ledger; the
thousands beside it have next to nothing. Plans are judged by the pages that a statement touches, on
tables that the planner has statistics of and on tables that it knows nothing about.
"""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.errors import WrongState
from duly.instants import from_us
from duly.model.policies import Missed
from duly.policy.firing import decide
from duly.store import connect as stores
from duly.store.ledger import FiringResult
from duly.store.migrate import migrate, migrations
from duly.store.sqlite.connection import connect, split_script
from duly.store.statements import statements
from duly.store.store import SqlStore
from duly.testing.clock import VirtualClock
from tests.factories import plan
from tests.store.test_plans import (
    A_JOB,
    A_SCHEDULE,
    JOB,
    NOW,
    NUMBERS,
    POSTGRES,
    SCHEDULE,
    SQLITE,
    prepared,
)

SECOND = 1_000_000
BACKFILLED, MANY, OTHERS = 7, 20_000, 3_000
BEGUN = NOW - MANY * SECOND
MOST_PAGES = 200  # of the 1,000 and more that the jobs of the one schedule fill
MOST_STEPS = 30_000  # of SQLite's machine: less than two for each of those jobs

# Statements of a fire, and of the end of a job, with the values of a call about that schedule.
FIRING: dict[str, dict[str, object]] = {
    "due_schedules": {"limit": 100, "zone_data": "2026f", "patience": 60 * SECOND},
    "live_jobs": {"ids": [BACKFILLED, 8, 9]},
    "hold_live_jobs": {"ids": [BACKFILLED, 8, 9]},
    "waiting_jobs": {"ids": [BACKFILLED, 8, 9], "most": 1_000},
    "due_with_settled": {"limit": 100, "zone_data": "2026f", "patience": 60 * SECOND},
    "next_due": {},
    "settled_fires": {
        "schedule_id": BACKFILLED,
        "after": BEGUN,
        "until": NOW,
        "limit": 1_000,
    },
    "free_blocked": {"ids": [BACKFILLED, 8, 9]},
}


def filling(series: str, prefix: str) -> list[str]:
    """One schedule with a long past, and thousands with a job or two."""
    job = A_JOB.format(now=f"{NOW} - {MANY - 1} + n", state="'blocked'")
    other = A_JOB.format(now=NOW, state="'ready'").replace("n, ", f"n + {MANY}, ", 1)
    schedule = A_SCHEDULE.format(now=BEGUN)
    fire = "schedule_id, due_at, series, id, covers_from, count, outcome, reason, decided_at"
    due = f"{BEGUN} + cast(n as bigint) * {SECOND}"
    return [
        f"insert into {prefix}schedule ({SCHEDULE}) select {schedule} from {series.format(OTHERS)}",
        f"update {prefix}schedule set settled_until = {NOW} where id = {BACKFILLED}",
        f"insert into {prefix}job ({JOB}, rank, request, schedule_id) "
        f"select {job}, n, 1, {BACKFILLED} from {series.format(MANY)}",
        f"insert into {prefix}job ({JOB}, rank, request, schedule_id) "
        f"select {other}, n, n + {MANY}, n + {BACKFILLED} from {series.format(OTHERS)}",
        f"insert into {prefix}fire ({fire}) "
        f"select {BACKFILLED}, {due}, 0, n, {due}, 1, 'queued', '', {NOW} "
        f"from {series.format(MANY)}",
    ]


@pytest.fixture(params=["unknown", "analyzed"])
def postgres(pg_dsn: str, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection]:
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        for migration in migrations(POSTGRES):
            connection.execute(migration.script.encode())
        connection.execute(f"select duly.make_place('fire', {BEGUN}, {NOW})".encode())
        connection.execute(f"select duly.make_day('fire', {NOW})".encode())
        connection.execute("alter table duly.job set (autovacuum_enabled = off)")
        for statement in filling("generate_series(1, {}) as n", "duly."):
            connection.execute(statement.encode())
        if request.param == "analyzed":
            connection.execute("analyze")
        yield connection


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_postgres_reads_a_bounded_number_of_pages(postgres: psycopg.Connection, mode: str) -> None:
    postgres.execute(f"set plan_cache_mode = {mode}".encode())
    read = {name: pages(postgres, name, values) for name, values in FIRING.items()}
    assert {name: found for name, found in read.items() if found > MOST_PAGES} == {}


def pages(connection: psycopg.Connection, name: str, values: dict[str, object]) -> int:
    with connection.transaction(force_rollback=True), prepared(connection, name, values) as call:
        explained = f"explain (analyze, buffers, timing off, format json) {call}"
        [(found,)] = connection.execute(explained.encode()).fetchall()
        top = found[0]["Plan"]
        return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


@pytest.fixture(params=["unknown", "analyzed"])
def sqlite(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    connection = connect(":memory:")
    for migration in migrations(SQLITE):
        for statement in split_script(migration.script):
            connection.execute(statement)
    for statement in filling(NUMBERS, "duly_"):
        connection.execute(statement)
    if request.param == "analyzed":
        connection.execute("analyze")
    yield connection
    connection.close()


def test_sqlite_takes_a_bounded_number_of_steps(sqlite: sqlite3.Connection) -> None:
    taken = {}
    for name, values in FIRING.items():
        given = {k: json.dumps(v) if isinstance(v, list) else v for k, v in values.items()}
        taken[name] = steps(sqlite, statements(SQLITE)[name], {**given, "now": NOW})
    assert {name: found for name, found in taken.items() if found > MOST_STEPS} == {}


def steps(connection: sqlite3.Connection, statement: str, values: dict[str, object]) -> int:
    """Count the steps that SQLite's machine takes, in hundreds; leave nothing behind."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 100
        return 0

    connection.execute("savepoint counting")
    connection.set_progress_handler(count, 100)
    try:
        connection.execute(statement, values).fetchall()
    finally:
        connection.set_progress_handler(None, 0)
        connection.execute("rollback to counting")
        connection.execute("release counting")
    return counted


# -- the same through the store: what is too slow runs into the deadline of its transaction --------


@dataclass
class House:
    """A store whose clock the test sets, and a way to write rows beside it."""

    store: SqlStore
    clock: VirtualClock
    execute: Callable[[str], object]
    fires: str  # the table

    async def fire(self) -> FiringResult:
        return await self.store.ledger.fire(decide, limit=200, trust=lambda _: True)


again = pytest.mark.thorough("repeats on the other database")


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=again)])
async def house(
    request: pytest.FixtureRequest, pg_dsn: str, tmp_path: Path
) -> AsyncIterator[House]:
    on_postgres = request.param == "postgres"
    url = pg_dsn if on_postgres else str(tmp_path / "duly.db")
    clock = VirtualClock(from_us(NOW))
    tables = stores.connect(url, clock=clock.now).database
    await tables.open()
    await migrate(tables)
    beside: Any = psycopg.connect(url, autocommit=True) if on_postgres else connect(url)
    try:
        yield House(
            SqlStore(tables), clock, beside.execute, "duly.fire" if on_postgres else "duly_fire"
        )
    finally:
        beside.close()
        await tables.close()


async def test_backfills_of_one_schedule_do_not_stop_another(house: House) -> None:
    await house.store.schedules.add([plan("report", "every 1s"), plan("other", "every 5s")])
    for hours in (6, 3):
        since = house.clock.now() - timedelta(hours=hours)
        until = since + timedelta(seconds=10_000)
        done = await house.store.schedules.backfill("report", since=since, until=until)
        assert len(done.jobs) == 10_000
    house.execute("analyze")
    house.clock.advance(timedelta(seconds=5))
    fired = await house.fire()
    assert (fired.schedules, list(fired.faults)) == (2, [])
    [queued] = await house.store.ledger.fires("other")
    assert queued.outcome == "queued"
    [skipped, *_] = await house.store.ledger.fires("report")
    assert (skipped.outcome, skipped.cause) == ("skipped", "overlap")


async def recorded(
    house: House, many: int, *, pause: timedelta | None = None, **policies: Any
) -> datetime:
    """Have a schedule with so many moments in its ledger, but one, and rewind it to before them.

    The missing moment is returned. It is not among the last 1,000: those are decided together with
    what is due now.
    """
    [report] = await house.store.schedules.add([plan("report", "every 1s", **policies)])
    if pause is not None:
        until = house.clock.now() + pause if pause else None
        await house.store.schedules.pause("report", until=until)
    last = NOW - NOW % SECOND
    begun, gap = last - many * SECOND, many - 1_500
    due = f"{begun} + cast(n as bigint) * {SECOND}"
    if house.fires == "duly.fire":
        house.execute(f"select duly.make_place('fire', {begun}, {NOW})")
        house.execute(f"select duly.make_day('fire', {NOW})")
        series = f"generate_series(1, {many}) as n"
    else:
        series = NUMBERS.format(many)
    house.execute(
        f"insert into {house.fires} (schedule_id, due_at, series, id, covers_from, count, outcome,"
        f" reason, decided_at) select {report.id}, {due}, 0, n, {due}, 1, 'queued', '', {NOW}"
        f" from {series} where n <> {gap}"
    )
    await house.store.schedules.rewind("report", to=from_us(begun))
    return from_us(begun + gap * SECOND)


async def caught_up(house: House) -> tuple[int, int]:
    """Fire until the schedule stands at now; return how many passes it took, and the rows made."""
    passes = rows = 0
    while (await house.store.schedules.get("report")).cursor < house.clock.now():
        fired = await house.fire()
        assert list(fired.faults) == []
        passes, rows = passes + 1, rows + fired.fires
    return passes, rows


async def test_a_rewind_over_very_many_moments_ends_and_delays_nobody(house: House) -> None:
    missing = await recorded(house, 200_000, overlap="allow")
    await house.store.schedules.add([plan("other", "every 1m")])
    house.clock.advance(timedelta(minutes=1))
    with pytest.raises(WrongState, match="was rewound, and the runs since then are still being"):
        await house.store.schedules.edit("report", lambda old: replace(old, title="another"))
    await house.fire()
    [other] = await house.store.ledger.fires("other")
    assert other.outcome == "queued", "the first pass is for the others too"
    passes, rows = await caught_up(house)
    assert passes <= 201
    # The moment that was missing; the newest, and one row for all that were merged into it.
    assert rows == 3
    found = await house.store.ledger.covering("report", missing)
    assert found is not None
    assert (found.due_at, found.count, found.outcome) == (missing, 1, "queued")
    await house.store.schedules.edit("report", lambda old: replace(old, title="another"))


async def test_a_change_goes_through_a_few_portions_by_itself(house: House) -> None:
    missing = await recorded(house, 2_500, overlap="allow")
    changed = await house.store.schedules.edit(
        "report", lambda old: replace(old, rule="every 1h", title="another")
    )
    assert (changed.plan.title, changed.cursor) == ("another", house.clock.now())
    found = await house.store.ledger.covering("report", missing)
    assert found is not None
    assert found.outcome == "queued"


@pytest.mark.parametrize("by_itself", [True, False])
async def test_what_fell_into_a_pause_is_skipped_in_every_portion(
    house: House, by_itself: bool
) -> None:
    minute = timedelta(minutes=1)
    missing = await recorded(house, 3_500, pause=minute if by_itself else timedelta(0))
    house.clock.advance(minute)
    if not by_itself:
        await house.store.schedules.resume("report")
    await caught_up(house)
    found = await house.store.ledger.covering("report", missing)
    assert found is not None
    assert (found.outcome, found.cause) == ("skipped", "paused")
    assert (await house.store.schedules.get("report")).pause is None


async def test_a_schedule_that_has_very_much_to_catch_up_is_decided_alone(house: House) -> None:
    everything = Missed("all", at_most=3_000)
    await house.store.schedules.add([plan("other", "every 1s")])
    house.clock.advance(timedelta(minutes=1))
    await house.store.schedules.add(
        [
            plan("much", "every 1s", overlap="allow", missed=everything),
            plan("more", "every 1s", overlap="allow", missed=everything),
        ]
    )
    house.clock.advance(timedelta(hours=1))
    written = [(await house.fire()).fires for _ in range(3)]
    assert written == [2, 3_001, 3_001], "with one row for what was too much"
