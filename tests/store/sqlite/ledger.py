"""A little database to test with: rows of words and numbers, and operations that can be held up."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from duly.store.database import Ask, Migration, Operation, Row, Start
from duly.store.sqlite.database import SqliteDatabase

SCHEMA = Migration(
    1, "ledger", "create table ledger (word text unique, number integer, at integer)"
)

STATEMENTS = {
    "insert": "insert into ledger (word, number, at) values (:word, :number, :now)",
    "rows": "select word, number from ledger order by rowid",
    "moments": "select distinct at from ledger",
    "insert_all": "insert into ledger (word) select value from json_each(:words)",
    "insert_large": "insert into ledger (word) values (hex(zeroblob(:size)))",
    "at_most_pages": "pragma max_page_count = 30",
    "broken": "select word from nowhere",
}


class Gate:
    """Holds up an operation in its thread, and tells the event loop when it got there."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reached = asyncio.Event()
        self._opened = threading.Event()

    def pass_through(self) -> None:
        self._loop.call_soon_threadsafe(self._reached.set)
        assert self._opened.wait(30), "nobody opened the gate"

    async def reached(self) -> None:
        await asyncio.wait_for(self._reached.wait(), 30)

    def open(self) -> None:
        """Open it behind everything that is now about to run, and to ask."""
        self._loop.call_soon(self._opened.set)


@asynccontextmanager
async def opened(path: Path | str, **options: Any) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(path, statements=STATEMENTS, **options)
    await database.open()
    try:
        await database.apply(SCHEMA)
        yield database
    finally:
        await database.close()


def insert(*words: str, gate: Gate | None = None) -> Start[int]:
    """Insert each word in a statement of its own; the gate is behind the first of them."""

    def operation() -> Operation[int]:
        for number, word in enumerate(words):
            yield Ask("insert", {"word": word, "number": number})
            if gate and number == 0:
                gate.pass_through()
        return len(words)

    return operation


def ask(statement: str, **values: Any) -> Start[list[Row]]:
    def operation() -> Operation[list[Row]]:
        return (yield Ask(statement, values))

    return operation


def words() -> Operation[list[str]]:
    return [word for word, _ in (yield Ask("rows"))]
