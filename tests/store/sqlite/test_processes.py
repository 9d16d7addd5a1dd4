"""Several processes on one file, and what remains when some of them are killed."""

import fcntl
import os
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.store.sqlite.database import SqliteDatabase
from tests.store.sqlite.ledger import STATEMENTS, insert, opened, words
from tests.store.sqlite.programs import said, started

SHORT = timedelta(milliseconds=300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.sqlite3"


async def test_no_acknowledged_write_is_lost_when_writers_are_killed(path: Path) -> None:
    acknowledged = []
    for _ in range(2):
        with ExitStack() as stack:
            writers = [stack.enter_context(started("write_for_ever", path)) for _ in range(3)]
            for writer in writers:
                acknowledged += [said(writer) for _ in range(100)]
            for writer in writers:
                writer.kill()
                assert writer.stdout
                acknowledged += writer.stdout.read().split()
    async with opened(path) as database:
        found = await database.read(words)
    assert len(acknowledged) >= 600
    assert set(acknowledged) <= set(found)
    # Each of the six may have been killed between its commit and its word.
    assert len(found) <= len(acknowledged) + 6
    assert integrity(path) == [("ok",)]


def integrity(path: Path) -> list[tuple[str]]:
    connection = sqlite3.connect(path)
    found = connection.execute("pragma integrity_check").fetchall()
    connection.close()
    return found


async def test_a_writer_waits_for_the_lock_no_longer_than_its_deadline_or_its_holders_life(
    path: Path,
) -> None:
    async with opened(path, deadline=SHORT) as database:
        with started("hold_the_lock", path) as holder:
            assert said(holder) == "holding"
            with pytest.raises(StoreUnavailable) as refusal:
                await database.write(insert("never"))
            assert not isinstance(refusal.value, OutcomeUnknown)
            assert await database.read(words) == []
            holder.kill()
            holder.wait()
            await database.write(insert("one"))
        assert await database.read(words) == ["one"]


async def test_a_forked_child_does_not_keep_the_lock_of_its_killed_parent(path: Path) -> None:
    async with opened(path, deadline=timedelta(seconds=10)) as database:
        with started("fork_while_holding_the_lock", path) as parent:
            assert said(parent) == "holding"
            assert "open a database of its own in the child" in said(parent)
            parent.kill()
            parent.wait()
            await database.write(insert("one"))
            assert parent.stdin
            parent.stdin.write("still there?\n")
            parent.stdin.flush()
            assert said(parent) == "child: still there?"
        assert await database.read(words) == ["one"]


async def test_opening_says_who_is_in_the_way(path: Path) -> None:
    with locked(path), pytest.raises(StoreUnavailable, match=f"fuser {path}.lock"):
        await SqliteDatabase(path, statements=STATEMENTS, deadline=SHORT).open()


async def test_closing_without_the_lock_leaves_the_log_to_the_next_one(path: Path) -> None:
    async with opened(path, deadline=SHORT) as database:
        await database.write(insert("one"))
        with locked(path):
            await database.close()
        assert log_size(path)
    async with opened(path) as database:
        assert await database.read(words) == ["one"]
    assert log_size(path) is None


def log_size(path: Path) -> int | None:
    log = Path(f"{path}-wal")
    return log.stat().st_size if log.exists() else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with Path(f"{path}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_program_that_forgot_to_close_its_database_ends(path: Path) -> None:
    with started("forget_to_close", path) as program:
        try:
            program.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            pytest.fail("it did not end by itself")
        assert program.returncode == 0


async def test_nobody_else_may_read_any_of_the_files(path: Path) -> None:
    before = os.umask(0)
    try:
        async with opened(path) as database:
            await database.write(insert("one"))
            modes = {
                file.name.removeprefix(path.name): stat.S_IMODE(file.stat().st_mode)
                for file in path.parent.iterdir()
            }
    finally:
        os.umask(before)
    assert modes == {"": 0o600, "-wal": 0o600, "-shm": 0o600, ".lock": 0o600, "-wake": 0o700}


async def test_a_lock_that_is_a_link_is_refused(path: Path) -> None:
    (path.parent / f"{path.name}.lock").symlink_to(path.parent / "elsewhere")
    with pytest.raises(StoreUnavailable, match="cannot open the lock"):
        await SqliteDatabase(path, statements=STATEMENTS).open()
    assert not (path.parent / "elsewhere").exists()


async def test_two_names_of_one_file_lead_to_one_lock(path: Path) -> None:
    other = path.parent / "other name"
    other.symlink_to(path)
    with locked(path), pytest.raises(StoreUnavailable, match=f"{path}.lock"):
        await SqliteDatabase(other, statements=STATEMENTS, deadline=SHORT).open()
