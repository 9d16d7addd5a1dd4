"""What is kept is kept on the disk, and the log of what was written stays small."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from duly.errors import InvalidValue
from duly.store.database import Operation, Start
from duly.store.sqlite.connection import connect, connect_to_read
from duly.store.sqlite.database import make_file
from tests.store.sqlite.ledger import Gate, ask, insert, opened, words

MEGABYTE = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.sqlite3"


def test_a_commit_is_on_the_disk_when_it_returns_unless_told_otherwise(path: Path) -> None:
    make_file(path, create=True)
    connection, hasty = connect(path), connect(path, "normal")
    assert setting(connection, "journal_mode") == "wal"
    assert (setting(connection, "synchronous"), setting(hasty, "synchronous")) == (2, 1)
    assert setting(connection, "foreign_keys") == 1
    assert setting(connection, "mmap_size") == 0
    connection.close()
    hasty.close()


def test_there_is_no_third_way(path: Path) -> None:
    with pytest.raises(InvalidValue, match="synchronous='off'"):
        connect(path, "off")  # type: ignore[arg-type]


def test_a_connection_that_reads_neither_writes_nor_checkpoints(path: Path) -> None:
    make_file(path, create=True)
    writing, reading = connect(path), connect_to_read(path)
    writing.execute("create table ledger (word text)")
    assert reading.execute("select * from ledger").fetchall() == []
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reading.execute("insert into ledger values ('never')")
    writing.close()
    reading.close()
    assert log_size(path) > 0


async def test_the_log_is_used_again_before_it_is_large(path: Path) -> None:
    async with opened(path) as database:
        for number in range(20):
            await database.write(ask("insert_large", size=MEGABYTE // 2 + number))
        assert log_size(path) < 8 * MEGABYTE


async def test_a_log_that_became_large_is_truncated(path: Path) -> None:
    async with opened(path) as database:
        await database.write(ask("insert_large", size=35 * MEGABYTE))
        assert log_size(path) == 0


async def test_a_log_in_use_is_left_as_it_is(path: Path) -> None:
    async with opened(path) as database:
        gate = Gate()
        reading = asyncio.create_task(database.read(words_behind(gate)))
        await gate.reached()
        await database.write(ask("insert_large", size=35 * MEGABYTE))
        await database.write(insert("one"))
        assert log_size(path) > 64 * MEGABYTE
        gate.open()
        assert await reading == []


def words_behind(gate: Gate) -> Start[list[str]]:
    def operation() -> Operation[list[str]]:
        before = yield from words()
        gate.pass_through()
        return before

    return operation


def setting(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"pragma {name}").fetchone()[0]


def log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size
