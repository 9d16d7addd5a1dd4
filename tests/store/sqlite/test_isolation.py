"""Nobody writes between what an operation reads and what it writes because of it."""

import sqlite3
from pathlib import Path

import pytest

from duly.errors import StoreUnavailable
from duly.store.database import Ask, Operation
from duly.store.sqlite import writer
from duly.store.sqlite.database import SqliteDatabase

STATEMENTS = {
    "make": "create table counter (value integer not null)",
    "begin": "insert into counter values (0)",
    "look": "select value from counter",
    "set": "update counter set value = :value",
}


async def count_twice(path: Path) -> list[str]:
    """Read a counter and write it back raised, while a stranger tries to raise it in between."""
    database = SqliteDatabase(path, statements=STATEMENTS)
    await database.open()
    story: list[str] = []

    def make() -> Operation[None]:
        yield Ask("make")
        yield Ask("begin")

    def count() -> Operation[None]:
        [(value,)] = yield Ask("look")
        story.append(interfere(path))
        yield Ask("set", {"value": value + 1})

    def look() -> Operation[int]:
        [(value,)] = yield Ask("look")
        return int(value)

    try:
        await database.write(make)
        await database.write(count)
        story.append(f"the counter is {await database.read(look)}")
    except StoreUnavailable:
        story.append("the operation failed")
    finally:
        await database.close()
    return story


def interfere(path: Path) -> str:
    """As a connection that knows nothing of the lock file would, the sqlite3 shell say."""
    stranger = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        stranger.execute("update counter set value = value + 1")
    except sqlite3.OperationalError:
        return "the stranger had to wait"
    else:
        return "the stranger wrote"
    finally:
        stranger.close()


async def test_a_stranger_has_to_wait_for_the_whole_operation(tmp_path: Path) -> None:
    assert await count_twice(tmp_path / "duly.db") == [
        "the stranger had to wait",
        "the counter is 1",
    ]


async def test_without_begin_immediate_the_stranger_comes_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BEGIN", "begin")
    assert await count_twice(tmp_path / "duly.db") == ["the stranger wrote", "the operation failed"]
