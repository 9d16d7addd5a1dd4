"""Where interleavings are played: a database whose rows are put back before each order."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TypeAlias, cast

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Composed, Identifier

from duly.instants import to_us
from duly.store.database import Ask, Dialect, Operation, Row, Start, T
from duly.store.migrate import migrate
from duly.store.postgres.database import PostgresDatabase
from duly.store.postgres.text import for_psycopg
from duly.store.statements import statements

Connection: TypeAlias = psycopg.AsyncConnection[Row]

START = datetime(2026, 3, 2, 12, tzinfo=UTC)


_NOTICED = re.compile(r"\bfor (no key )?update\b|\bnextval\(")

_for_psycopg = cache(for_psycopg)

_TABLES = """
select relname,
       (select array_agg(attname::text order by attnum)
          from pg_attribute
         where attrelid = pg_class.oid and attnum > 0 and not attisdropped
           and attgenerated = '')
  from pg_class
 where relnamespace = 'duly'::regnamespace and relkind in ('r', 'p') and not relispartition
   and relname <> 'migration'
"""


async def prepare(dsn: str, dialect: Dialect) -> None:
    """Make the tables, and the day that is played."""
    database = PostgresDatabase(dsn, dialect=replace(dialect, notify=False))
    await database.open()
    try:
        await migrate(database)
        if dialect.partitions:
            await database.write(_day)
    finally:
        await database.close()


class Stage:
    """Connections, the time, and rows to begin every order with."""

    def __init__(self, dialect: Dialect, connections: Sequence[Connection]) -> None:
        self.now = START
        self._kept_now = START
        self._own, *self.connections = connections
        self._texts: dict[str, str] = dict(statements(dialect))
        self._reset = Composed([])

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, dsn: str, *, dialect: Dialect, sessions: int = 3
    ) -> "AsyncIterator[Stage]":
        """On a database that ``prepare`` has prepared; what is left there is swept away."""
        async with AsyncExitStack() as stack:
            made = [
                await stack.enter_async_context(await _connected(dsn)) for _ in range(sessions + 1)
            ]
            await made[0].set_autocommit(True)
            stage = cls(dialect, made)
            for table, _ in await stage.look(_TABLES):
                await made[0].execute(SQL("delete from duly.{}").format(Identifier(table)))
            yield stage

    async def run(self, start: Start[T]) -> T:
        """Run an operation alone."""
        operation = start()
        async with self._own.transaction():
            try:
                ask = next(operation)
                while True:
                    ask = operation.send(await self.rows(self._own, ask))
            except StopIteration as end:
                return cast(T, end.value)

    async def look(self, query: str, values: Mapping[str, object] | None = None) -> list[Row]:
        """Ask about what is there, as everybody sees it."""
        return await (await self._own.execute(query.encode(), values)).fetchall()

    async def keep(self) -> None:
        """Begin every order with what is there now."""
        self._kept_now = self.now
        pieces = []
        await self._own.execute(b"drop schema if exists kept cascade; create schema kept")
        for table, columns in await self.look(_TABLES):
            name = Identifier(table)
            await self._own.execute(
                SQL("create table kept.{0} as table duly.{0}").format(name), prepare=False
            )
            pieces.append(SQL("delete from duly.{};").format(name))
            kept = await self._own.execute(SQL("select from kept.{} limit 1").format(name))
            if kept.rowcount:
                written = SQL(", ").join(map(Identifier, columns))
                put_back = SQL("insert into duly.{0} ({1}) select {1} from kept.{0};")
                pieces.append(put_back.format(name, written))
        self._reset = Composed(pieces)

    async def reset(self) -> None:
        self.now = self._kept_now
        await self._own.execute(self._reset, prepare=False)

    @contextmanager
    def changed(self, statement: str, *changes: tuple[str, str]) -> Iterator[None]:
        """With another text for a statement: to see that a guard is missed when it is gone."""
        whole = text = self._texts[statement]
        for old, new in changes:
            if old not in text:
                raise ValueError(f'"{old}" is not in {statement}, so it cannot be replaced')
            text = text.replace(old, new)
        self._texts[statement] = text
        try:
            yield
        finally:
            self._texts[statement] = whole

    def only_reads(self, statement: str) -> bool:
        """Whether others cannot notice the statement: it writes nothing and locks nothing."""
        text = self._texts[statement]
        return text.startswith("select") and not _NOTICED.search(text)

    async def rows(self, connection: Connection, ask: Ask) -> list[Row]:
        values = {**ask.values, "now": to_us(self.now)}
        answer = await connection.execute(_for_psycopg(self._texts[ask.statement]), values)
        return await answer.fetchall() if answer.description else []

    async def blockers(self, connection: Connection) -> list[int]:
        """The processes for whose locks this one waits."""
        [(found,)] = await self.look(
            "select pg_blocking_pids(%(pid)s)", {"pid": connection.info.backend_pid}
        )
        return list(found)


def _day() -> Operation[None]:
    for parent in ("fire", "history"):
        yield Ask("make_day", {"parent": parent, "instant": to_us(START)})


async def _connected(dsn: str) -> Connection:
    connection = await psycopg.AsyncConnection[Row].connect(dsn)
    with suppress(errors.InsufficientPrivilege):  # then a deadlock is noticed after a second
        await connection.execute(b"set deadlock_timeout = '10ms'")
    await connection.commit()
    return connection
