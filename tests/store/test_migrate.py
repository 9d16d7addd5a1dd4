"""Migrations: applied once, in their order, whole or not at all, whoever else does it too."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from duly.app import migrate_store
from duly.clock import Timeout
from duly.errors import SchemaMismatch
from duly.store.database import Dialect, Migration
from duly.store.migrate import Schema, check, migrate, migrations, read_migrations, require
from duly.store.postgres.database import PostgresDatabase
from tests.store.postgres.notes import is_waiting_for_a_lock

ROOT = Path(__file__).parents[2]

STEPS = [
    Migration(
        1, "tables", "create table duly.a (x int); create table duly.b (y text default ':%')"
    ),
    Migration(2, "more", "alter table duly.a add z int; insert into duly.a values (1, 2)"),
]
BROKEN = Migration(3, "broken", "create table duly.c (); select 1 / 0")


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(dsn, dialect=Dialect("postgres", notify=False), statements={})
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
async def database(pg_dsn: str) -> AsyncIterator[PostgresDatabase]:
    async with opened(pg_dsn) as database:
        yield database


async def test_an_empty_database_gets_everything_in_order_and_then_nothing(
    database: PostgresDatabase, pg_dsn: str
) -> None:
    reported: list[Migration] = []
    assert await database.applied() == []
    assert schemas(pg_dsn) == []
    assert await migrate(database, report=reported.append, known=STEPS) == STEPS
    assert reported == STEPS
    assert await database.applied() == [1, 2]
    assert await migrate(database, known=STEPS) == []
    with psycopg.connect(pg_dsn) as connection:
        recorded = connection.execute(
            "select number, name, abs(applied_at / 1e6 - extract(epoch from now())) < 60"
            " from duly.migration order by number"
        )
        assert recorded.fetchall() == [(1, "tables", True), (2, "more", True)]


async def test_of_many_who_migrate_at_once_one_does_each_step(pg_dsn: str) -> None:
    async def one() -> list[Migration]:
        async with opened(pg_dsn) as database:
            return await migrate(database, known=STEPS)

    done = await asyncio.gather(*(one() for _ in range(6)))
    assert sorted(migration for each in done for migration in each) == STEPS
    with psycopg.connect(pg_dsn) as connection:
        assert connection.execute("select x, z from duly.a").fetchall() == [(1, 2)]


async def test_an_empty_database_that_another_prepares_just_now_is_no_obstacle(
    database: PostgresDatabase, pg_dsn: str
) -> None:
    async with await psycopg.AsyncConnection.connect(pg_dsn) as another:
        await another.execute(
            "create schema duly;"
            " create table duly.migration (number int primary key, name text, applied_at bigint,"
            " minimum int)"
        )
        migrating = asyncio.create_task(migrate(database, known=STEPS))
        await is_waiting_for_a_lock(pg_dsn)
        await another.commit()
        assert await migrating == STEPS


def test_of_processes_that_migrate_at_once_one_does_each_step(pg_dsn: str) -> None:
    program = """if True:
        import asyncio, sys
        from tests.store.test_migrate import STEPS, migrate, opened

        async def main():
            async with opened(sys.argv[1]) as database:
                print("ready", flush=True)
                sys.stdin.readline()
                print([step.number for step in await migrate(database, known=STEPS)])

        asyncio.run(main())
    """
    asked = [sys.executable, "-c", program, pg_dsn]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(asked, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as one,
        subprocess.Popen(asked, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as two,
    ):
        for process in (one, two):
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in (one, two):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        done = [json.loads(process.communicate(timeout=60)[0]) for process in (one, two)]
    assert sorted(done[0] + done[1]) == [1, 2]


async def test_a_migration_that_fails_leaves_nothing_and_can_be_repaired(
    database: PostgresDatabase, pg_dsn: str
) -> None:
    said = r"migration 3 \(broken\) could not be applied, and was rolled back: division by"
    with pytest.raises(SchemaMismatch, match=said):
        await migrate(database, known=[*STEPS, BROKEN])
    assert await database.applied() == [1, 2]
    with psycopg.connect(pg_dsn) as connection:
        assert connection.execute("select to_regclass('duly.c')").fetchone() == (None,)
    repaired = BROKEN._replace(script="create table duly.c ()")
    assert await migrate(database, known=[*STEPS, repaired]) == [repaired]


async def test_a_migration_gives_way_to_whoever_uses_the_table_and_tries_again(
    database: PostgresDatabase, pg_dsn: str
) -> None:
    await migrate(database, known=STEPS)
    step = Migration(3, "column", "alter table duly.a add later int")
    async with await psycopg.AsyncConnection.connect(pg_dsn) as report:
        await report.execute("select * from duly.a")
        migrating = asyncio.create_task(migrate(database, known=[*STEPS, step]))
        # A node that comes while the migration waits is served when the migration gives way.
        async with await psycopg.AsyncConnection.connect(pg_dsn, autocommit=True) as node:
            await until_the_migration_waits(node)
            async with Timeout(5):
                await node.execute("insert into duly.a values (3)")
        assert not migrating.done()
        await report.rollback()
        assert await migrating == [step]


async def until_the_migration_waits(node: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
    waiting = "select 1 from pg_locks where not granted and relation = 'duly.a'::regclass"
    while not await (await node.execute(waiting)).fetchone():
        pass


async def test_a_database_is_required_to_be_as_new_as_duly_and_may_be_newer(
    database: PostgresDatabase,
) -> None:
    with pytest.raises(SchemaMismatch, match=r"^the database has no duly tables: run duly db migr"):
        await require(database, known=STEPS)
    await migrate(database, known=STEPS[:1])
    with pytest.raises(
        SchemaMismatch, match=r"older than this version of duly \(migration 2 is missing\)"
    ):
        await require(database, known=STEPS)
    await migrate(database, known=STEPS)
    await require(database, known=STEPS)
    assert await check(database, known=STEPS) == Schema(applied=(1, 2), expected=(1, 2))
    await require(database, known=STEPS[:1])
    note = (await check(database, known=STEPS[:1])).note
    assert note == (
        "a newer version of duly has changed the database (migration 2 is unknown to this one)"
    )
    assert await migrate(database, known=STEPS[:1]) == []


@pytest.mark.parametrize(
    ("applied", "expected", "problem"),
    [
        ((1, 2), (1, 2), None),
        ((), (1, 2), "the database has no duly tables: run duly db migrate"),
        (
            (1,),
            (1, 2, 3, 4),
            "the database is older than this version of duly (migrations 2, 3 and 4 are missing): "
            "run duly db migrate",
        ),
        (
            (1, 2, 5, 6),
            (1, 2, 3),
            "the database is older than this version of duly (migration 3 is missing): run duly "
            "db migrate",
        ),
        ((1, 2, 3), (1, 2), None),
    ],
)
def test_a_schema_says_what_is_wrong_and_what_to_run(
    applied: tuple[int, ...], expected: tuple[int, ...], problem: str | None
) -> None:
    schema = Schema(applied=applied, expected=expected)
    assert (schema.problem, schema.ok) == (problem, problem is None)


async def test_a_database_may_be_too_new(database: PostgresDatabase) -> None:
    breaking = Migration(3, "breaking", "alter table duly.a drop column x", minimum=3)
    await migrate(database, known=[*STEPS, breaking])
    told = (
        "the database is too new for this version of duly: it needs one that knows migration 3, "
        "but this "
    )
    told += "one knows 2; upgrade duly on this machine"
    assert (await check(database, known=STEPS)).problem == told
    for refused in (require, migrate):
        with pytest.raises(SchemaMismatch, match=f"^{told}$"):
            await refused(database, known=STEPS)
    await require(database, known=[*STEPS, breaking])
    later = Migration(4, "later", "create table duly.d ()")
    await migrate(database, known=[*STEPS, breaking, later])
    await require(database, known=[*STEPS, breaking])
    with pytest.raises(SchemaMismatch, match="needs one that knows migration 3"):
        await require(database, known=STEPS)


def test_a_file_says_from_which_migration_on_nodes_may_use_the_database(tmp_path: Path) -> None:
    (tmp_path / "0001_tables.sql").write_text("first")
    (tmp_path / "0002_breaking.sql").write_text("-- It drops a column.\n-- minimum: 0002\nsecond")
    found = read_migrations(tmp_path, Dialect("postgres"))
    assert [one.minimum for one in found] == [0, 2]


def test_migrations_are_read_from_files_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "0002_more.sql").write_text("second /*[partitions] by day [partitions]*/")
    (tmp_path / "0001_tables.sql").write_text("first")
    (tmp_path / "README.md").write_text("not one")
    assert read_migrations(tmp_path, Dialect("postgres", partitions=False)) == [
        Migration(1, "tables", "first"),
        Migration(2, "more", "second "),
    ]


@pytest.mark.parametrize(
    ("dialect", "script"),
    [
        ("postgres", 'create table duly.x (id bigint, at int, name text collate "C") ;'),
        ("sqlite", "create table duly_x (id integer, at integer, name text) strict;"),
    ],
)
def test_one_file_is_the_migration_of_both_databases(
    tmp_path: Path, dialect: str, script: str
) -> None:
    text = '-- part: columns\nat int, name text collate "C"\n\n-- name: tables\n'
    text += "create table duly.x (id bigint, {columns}) {sqlite strict};\n"
    (tmp_path / "0001_tables.sql").write_text(text)
    [found] = read_migrations(tmp_path, Dialect(dialect))
    assert f"{found.script};" == script


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("0001_again.sql", "there are two migrations numbered 1"),
        ("2_short.sql", r"2_short.sql: a migration is named as in 0001_tables\.sql"),
    ],
)
def test_a_file_that_is_no_migration_is_refused(tmp_path: Path, name: str, refusal: str) -> None:
    for file in ("0001_tables.sql", name):
        (tmp_path / file).write_text("")
    with pytest.raises(ValueError, match=refusal):
        read_migrations(tmp_path, Dialect("postgres"))


@pytest.mark.parametrize("name", ["postgres", "sqlite"])
def test_the_migrations_of_a_dialect_are_numbered_without_gaps(name: str) -> None:
    numbers = [migration.number for migration in migrations(Dialect(name))]
    assert numbers == list(range(1, len(numbers) + 1))


def schemas(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        found = connection.execute("select nspname from pg_namespace where nspname = 'duly'")
        return [name for (name,) in found]


async def test_tables_whose_rows_come_and_go_are_vacuumed_early(pg_dsn: str) -> None:
    """A server's own settings wait until a fifth of a table is dead."""
    await migrate_store(pg_dsn)
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        found = await connection.execute(
            "select relname from pg_class where relnamespace = 'duly'::regnamespace"
            " and 'autovacuum_vacuum_scale_factor=0.01' = any(reloptions)"
        )
        early = {name for (name,) in await found.fetchall()}
    assert early == {
        "event", "holding", "job", "job_key", "named_limit", "queue", "schedule", "signal",
        "unanswered", "worker",
    }  # fmt: skip
