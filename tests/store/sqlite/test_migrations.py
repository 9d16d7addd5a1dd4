"""A migration is applied once and whole, whoever else tries, or not at all."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from duly.store.database import Migration
from duly.store.sqlite.connection import connect, split_script
from duly.store.sqlite.database import SqliteDatabase
from tests.store.sqlite.ledger import STATEMENTS, opened

SCRIPT = """
-- A trigger; it has semicolons inside.
create table jobs (id integer primary key, note text default ';');
create trigger noted after insert on jobs begin
    update jobs set note = 'a;b' where id = new.id;
    update jobs set note = note || '--' where id = new.id;
end;
/* The last one; without its semicolon. */
create table marks (id integer)
"""


async def test_asking_what_is_applied_makes_nothing(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "empty.sqlite3", statements=STATEMENTS)
    await database.open()
    assert await database.applied() == []
    await database.close()
    assert tables(tmp_path / "empty.sqlite3") == []


async def test_of_many_who_apply_a_migration_one_does(tmp_path: Path) -> None:
    path = tmp_path / "duly.sqlite3"
    async with opened(path) as one, opened(path) as two, opened(path) as three:
        migration = Migration(2, "jobs", SCRIPT)
        done = await asyncio.gather(*(each.apply(migration) for each in (one, two, three)))
        assert sorted(done) == [False, False, True]
        assert await two.applied() == [1, 2]
    assert tables(path) == ["duly_migration", "jobs", "ledger", "marks"]


async def test_a_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "duly.sqlite3"
    async with opened(path) as database:
        with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
            await database.apply(Migration(2, "jobs", SCRIPT + "; drop table nowhere"))
        assert await database.applied() == [1]
    assert tables(path) == ["duly_migration", "ledger"]


def test_a_script_is_split_where_its_statements_end() -> None:
    jobs, noted, marks = split_script(SCRIPT)
    connection = connect(":memory:")
    for statement in (jobs, noted, marks):
        connection.execute(statement)
    connection.execute("insert into jobs default values")
    assert connection.execute("select note from jobs").fetchall() == [("a;b--",)]
    connection.close()


def test_a_comment_at_the_end_of_a_script_is_harmless() -> None:
    connection = connect(":memory:")
    for statement in split_script("create table one (id); -- done; really\n"):
        connection.execute(statement)
    connection.close()


def tables(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    named = "select name from sqlite_master where type = 'table' order by name"
    found = [name for (name,) in connection.execute(named)]
    connection.close()
    return found
