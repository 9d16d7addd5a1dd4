"""Operations on PostgreSQL: one transaction each, run again where that helps."""

import asyncio
from datetime import UTC, datetime
from time import process_time

import psycopg
import pytest

from duly.errors import KeyTaken, SchemaMismatch, StoreUnavailable
from duly.instants import to_us
from duly.store.database import Ask, Dialect, Operation
from duly.store.postgres.database import PostgresDatabase
from tests.infrastructure.postgres import with_parameters
from tests.store.postgres.conftest import QUIET, Opened, Other
from tests.store.postgres.notes import Added, add, ask, is_waiting_for_a_lock, notes_in


async def test_an_operation_returns_its_result_and_its_writes_are_kept(
    database: PostgresDatabase, dsn: str
) -> None:
    assert await database.write(add(1, 2)) == 2
    assert notes_in(dsn) == [1, 2]


async def test_an_operation_that_refuses_leaves_nothing_behind_and_costs_no_connection(
    dsn: str, opened: Opened
) -> None:
    def refused() -> Operation[None]:
        yield Ask("add", {"id": 1, "text": ""})
        raise KeyTaken("taken")

    database = await opened(dsn, connections=1)
    before = await database.read(ask("process"))
    with pytest.raises(KeyTaken, match="taken"):
        await database.write(refused)
    assert notes_in(dsn) == []
    assert await database.read(ask("process")) == before


async def test_a_statement_that_fails_undoes_those_before_it_and_is_seen_as_it_is(
    database: PostgresDatabase, dsn: str
) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation):
        await database.write(add(1, 2, 1))
    assert notes_in(dsn) == []
    assert await database.write(add(1)) == 1


async def test_an_operation_that_asks_nothing_is_possible(database: PostgresDatabase) -> None:
    assert await database.write(add()) == 0


async def test_a_read_sees_one_moment_and_cannot_write(
    database: PostgresDatabase, dsn: str
) -> None:
    assert await database.read(ask("isolation")) == [("repeatable read", "on")]
    with pytest.raises(StoreUnavailable, match="read-only transaction"):
        await database.read(add(1))
    assert notes_in(dsn) == []


async def test_lists_arrive_as_arrays(database: PostgresDatabase) -> None:
    await database.write(add(1, 2, 3, text="few"))
    await database.write(add(4, text="one"))
    assert await database.read(ask("some", ids=[1, 9], texts=["one"])) == [(1,), (4,)]
    assert await database.read(ask("some", ids=[], texts=[])) == []


async def test_numbers_are_of_one_type_whatever_their_size_and_json_stays_text(
    database: PostgresDatabase,
) -> None:
    for number in (1, 2**40):
        assert await database.read(ask("kinds", id=number, ids=[number])) == [
            ('{"a": 1}', number, "bigint", "bigint[]", 3)
        ]


async def test_now_is_left_to_the_server_unless_there_is_a_clock(dsn: str, opened: Opened) -> None:
    moment = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    virtual = await opened(dsn, clock=lambda: moment)
    assert await virtual.read(ask("now")) == [(to_us(moment),)]
    assert await (await opened(dsn)).read(ask("now")) == [(None,)]


async def test_the_victim_of_a_deadlock_is_run_again(
    database: PostgresDatabase, dsn: str, other: Other
) -> None:
    await database.write(add(1, 2))
    runs: list[int] = []

    def upwards() -> Operation[None]:
        runs.append(1)
        # The second time behind them: who comes the same way and is quick meets them once more.
        for number in (1, 2) if len(runs) == 1 else (2, 1):
            yield Ask("change", {"id": number, "text": "ours"})

    # We wait first, so we look first for a deadlock, and are the one that gives way.
    await other.execute("set deadlock_timeout = '1min'")
    await other.execute("begin; update note set text = 'theirs' where id = 2")
    writing = asyncio.create_task(database.write(upwards))
    await is_waiting_for_a_lock(dsn)
    await other.execute("update note set text = 'theirs' where id = 1; commit")
    await writing
    assert runs == [1, 1]
    assert await database.read(ask("all")) == [(1, "ours"), (2, "ours")]


async def test_a_day_without_its_partition_is_made_and_the_operation_repeated(
    dsn: str, opened: Opened
) -> None:
    missing: list[tuple[str, str]] = []

    def make(table: str, row: str) -> Operation[None]:
        missing.append((table, row))
        yield Ask("make_a_day")

    with psycopg.connect(dsn) as connection:
        connection.execute("create table daily (day bigint) partition by range (day)")
    database = await opened(dsn, on_missing_partition=make)
    await database.write(ask("of_a_day", id=7))
    assert missing == [("daily", "Partition key of the failing row contains (day) = (7).")]
    with pytest.raises(psycopg.errors.CheckViolation, match="no partition"):
        await (await opened(dsn)).write(ask("of_a_day", id=8))


async def test_a_database_that_was_never_migrated_says_what_to_run(
    database: PostgresDatabase,
) -> None:
    with pytest.raises(SchemaMismatch, match="no duly tables: run duly db migrate"):
        await database.read(ask("absent"))


async def test_no_more_connections_are_opened_than_allowed(dsn: str, opened: Opened) -> None:
    database = await opened(dsn, connections=2)
    used = await asyncio.gather(*(database.read(ask("process")) for _ in range(20)))
    assert len({process for ((process,),) in used}) == 2


async def test_statements_are_prepared_and_planned_once(dsn: str, opened: Opened) -> None:
    database = await opened(dsn, connections=1)
    counts = [await database.read(ask("prepared", id=1)) for _ in range(3)]
    assert counts == [[(0,)], [(1,)], [(1,)]]
    assert await database.read(ask("settings")) == [("force_generic_plan", "10s", "duly")]


async def test_where_sessions_are_shared_nothing_outlives_a_transaction(
    dsn: str, opened: Opened
) -> None:
    bare = Dialect("postgres").without_features()
    database = await opened(dsn, dialect=bare, connections=1)
    counts = [await database.read(ask("prepared", id=1)) for _ in range(3)]
    assert counts == [[(0,)], [(0,)], [(0,)]]
    assert await database.read(ask("settings")) == [("auto", "10s", "duly")]
    assert await database.write(add(1)) == 1
    async with database._connections.one() as connection:
        answer = await connection.execute("show statement_timeout")
        assert await answer.fetchone() == ("0",)
    database.nudge(["nobody hears it"])
    assert not database.is_listening


async def test_the_users_own_settings_win(dsn: str, opened: Opened) -> None:
    url = with_parameters(dsn, application_name="mine", options="-c statement_timeout=4321")
    database = await opened(url)
    assert await database.read(ask("settings")) == [("force_generic_plan", "4321ms", "mine")]


async def test_it_can_be_closed_twice_and_says_so_when_used_afterwards(
    dsn: str, opened: Opened
) -> None:
    database = await opened(dsn)
    await database.close()
    await database.close()
    with pytest.raises(StoreUnavailable, match=r"closed by close\(\)"):
        await database.write(add(1))
    await database.open()
    assert await database.write(add(1)) == 1


async def test_closing_waits_for_the_operation_that_runs(dsn: str, opened: Opened) -> None:
    database = await opened(dsn, dialect=QUIET)
    running = asyncio.create_task(database.write(Added([1], "")))
    while database._connections._idle:  # until it has taken the connection
        await asyncio.wait([running], timeout=0)
    await database.close()
    assert running.done()
    assert notes_in(dsn) == [1]


async def test_who_waits_for_an_answer_sleeps(dsn: str) -> None:
    """Waiting must not be done by asking again and again whether the answer is there."""
    database = PostgresDatabase(dsn, dialect=QUIET, statements={"sleep": "select pg_sleep(0.5)"})
    await database.open()
    before = process_time()
    await database.write(ask("sleep"))
    assert process_time() - before < 0.25
    await database.close()


async def test_a_column_may_get_another_type_under_prepared_statements(
    dsn: str, opened: Opened, other: Other
) -> None:
    database = await opened(dsn, connections=1)
    for _ in range(2):
        await database.read(ask("all"))
    await other.execute("alter table note alter text type varchar(9)")
    with pytest.raises(StoreUnavailable, match="cached plan must not change result type"):
        await database.read(ask("all"))
    assert await database.read(ask("all")) == []
