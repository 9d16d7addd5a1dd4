"""Who shares a file is woken by others' nudges, and by writes of those who know nothing of duly."""

import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from duly import clock
from duly.clock import Timeout
from duly.store.sqlite.database import TELLING_SECONDS, SqliteDatabase
from duly.store.sqlite.lock import FileLock
from duly.store.sqlite.wake import Mailbox
from duly.store.sqlite.writer import Writer
from tests.store.sqlite.ledger import insert, opened
from tests.store.sqlite.programs import said, started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.sqlite3"


class Ear:
    def __init__(self, database: SqliteDatabase) -> None:
        self.heard: list[str] = []
        self._news = asyncio.Event()
        database.listen(self._hear)

    def _hear(self, topic: str) -> None:
        self.heard.append(topic)
        self._news.set()

    async def hears(self, topic: str) -> None:
        async with Timeout(20):
            while topic not in self.heard:
                self._news.clear()
                await self._news.wait()


async def test_a_nudge_from_another_process_arrives(path: Path) -> None:
    async with opened(path) as database:
        ear = Ear(database)
        with started("nudge", path):
            await ear.hears("jobs")


async def test_a_path_too_long_for_a_socket_is_not_too_long_for_a_nudge(tmp_path: Path) -> None:
    deep = tmp_path / ("a" * 120) / ("b" * 120)
    deep.mkdir(parents=True)
    async with opened(deep / "duly.sqlite3") as one, opened(deep / "duly.sqlite3") as other:
        ear = Ear(other)
        one.nudge(["jobs", "schedules"])
        await ear.hears("schedules")
        assert ear.heard == ["jobs", "schedules"]


async def test_many_nudges_of_one_topic_are_two(path: Path) -> None:
    async with opened(path) as one, opened(path) as other:
        ear = Ear(other)
        for _ in range(100):
            one.nudge(["jobs"])
        one.nudge(["jobs", "schedules"])
        await ear.hears("schedules")
        assert ear.heard == ["jobs", "schedules"]
        ear.heard.clear()
        await ear.hears("jobs")
        one.nudge(["end"])
        await ear.hears("end")
        assert ear.heard == ["jobs", "end"]


async def test_a_nudge_that_waits_is_sent_before_closing(path: Path) -> None:
    async with opened(path) as other:
        ear = Ear(other)
        async with opened(path) as one:
            one.nudge(["jobs"])
            await ear.hears("jobs")
            ear.heard.clear()
            one.nudge(["jobs", "more"])
            one.nudge(["more"])
        await ear.hears("jobs")
        assert sorted(ear.heard) in (["jobs", "more"], ["jobs", "more", "more"])


async def test_the_socket_of_a_killed_process_is_removed(path: Path) -> None:
    with started("wait_to_be_killed", path) as program:
        assert said(program) == "open"
        (left,) = sockets(path)
        program.kill()
        program.wait()
        assert sockets(path) == [left]
    async with opened(path):
        (own,) = sockets(path)
        assert own != left
    assert sockets(path) == []


def sockets(path: Path) -> list[Path]:
    return list(Path(f"{path}-wake").iterdir())


async def test_a_nudge_to_a_process_that_was_killed_meanwhile_removes_its_socket(
    path: Path,
) -> None:
    async with opened(path) as database:
        with started("wait_to_be_killed", path) as program:
            assert said(program) == "open"
            program.kill()
            program.wait()
        assert len(sockets(path)) == 2
        database.nudge(["jobs"])
        assert len(sockets(path)) == 1


async def test_a_write_by_somebody_who_knows_nothing_of_duly_is_heard(path: Path) -> None:
    async with opened(path) as database:
        ear = Ear(database)
        write_unannounced(path)
        await ear.hears("*")


async def test_a_write_of_which_a_process_has_told_does_not_wake_everybody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = 100.0
    monkeypatch.setattr(clock, "boottime", lambda: time)
    async with opened(path) as one, opened(path) as other:
        ear = Ear(other)
        one.nudge(["jobs"])
        await ear.hears("jobs")
        await one.write(insert("told"))
        other._changed()  # as its thread says soon after any write
        assert ear.heard == ["jobs"]
        time += TELLING_SECONDS
        other._changed()
        assert ear.heard[-1] == "*"


def test_one_hears_others_write_and_not_oneself(path: Path) -> None:
    path.touch()
    lock, heard = FileLock(Path(f"{path}.lock")), []
    lock.open()
    writer = Writer(path, lock, synchronous="full", patience=timedelta(seconds=5))
    writer.watch(lambda: heard.append("others"))
    connection = writer.connect()
    connection.execute("create table ledger (word text)")
    writer.look(connection)
    assert heard == []
    write_unannounced(path)
    writer.look(connection)
    writer.look(connection)
    assert heard == ["others"]
    writer.close(connection)
    lock.close()


def write_unannounced(path: Path) -> None:
    stranger = sqlite3.connect(path)
    stranger.execute("insert into ledger (word) values ('unannounced')")
    stranger.commit()
    stranger.close()


async def test_without_sockets_everything_else_still_works(path: Path) -> None:
    (path.parent / f"{path.name}-wake").symlink_to("a link where the folder should be")
    async with opened(path) as database:
        ear = Ear(database)
        database.nudge(["jobs"])
        assert await database.write(insert("one")) == 1
        write_unannounced(path)
        await ear.hears("*")


async def test_a_process_with_too_few_descriptors_for_the_dead_can_still_nudge(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(_: Mailbox) -> NoReturn:
        raise OSError("too many open files")

    async with opened(path) as other:
        monkeypatch.setattr(Mailbox, "remove_the_dead", no_more)
        ear = Ear(other)
        async with opened(path) as database:
            database.nudge(["jobs"])
            await ear.hears("jobs")
