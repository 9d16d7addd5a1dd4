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
from duly.store.statements import for_psycopg, statements

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


_COPY = "create table kept.{table} as select {columns} from duly.{table} with no data"
_MOVES = {
    "sweep": "delete from duly.{table}; delete from kept.{table};",
    "keep": """
        delete from kept.{table};
        insert into kept.{table} select {columns} from duly.{table};
    """,
    "put_back": """
        delete from duly.{table};
        insert into duly.{table} ({columns}) select * from kept.{table};
    """,
}
_FUNCTION = "create function kept.{move}() returns void language plpgsql as $$begin {steps} end$$"


async def prepare(dsn: str, dialect: Dialect) -> None:
    """Make the tables, the day that is played, and a place to keep rows in."""
    database = PostgresDatabase(dsn, dialect=replace(dialect, notify=False))
    await database.open()
    try:
        await migrate(database)
        if dialect.partitions:
            await database.write(_day)
    finally:
        await database.close()
    async with await _connected(dsn) as connection:
        await _make_keeper(connection)


class Stage:
    """Connections, the time, and rows to begin every order with."""

    def __init__(self, dialect: Dialect, connections: Sequence[Connection]) -> None:
        self.now = START
        self._kept_now = START
        self._own, *self.connections = connections
        # Who waits here waits for as long as we like.
        self._texts = {
            name: text.replace("'lock_timeout', '500'", "'lock_timeout', '0'")
            for name, text in statements(dialect).items()
        }

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
            await stage.look("select kept.sweep()")
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
        await self.look("select kept.keep()")

    async def reset(self) -> None:
        self.now = self._kept_now
        await self.look("select kept.put_back()")

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
        return _only_reads(self._texts[statement])

    async def rows(self, connection: Connection, ask: Ask) -> list[Row]:
        values = {**ask.values, "now": to_us(self.now)}
        answer = await connection.execute(_for_psycopg(self._texts[ask.statement]), values)
        result = answer.pgresult  # asked for its description, it would describe every column
        return await answer.fetchall() if result and result.nfields else []

    async def blockers(self, connection: Connection) -> list[int]:
        """The processes for whose locks this one waits."""
        [(found,)] = await self.look(
            "select pg_blocking_pids(%(pid)s)", {"pid": connection.info.backend_pid}
        )
        return list(found)


@cache
def _only_reads(text: str) -> bool:
    return text.startswith("select") and not _NOTICED.search(text)


async def _make_keeper(connection: Connection) -> None:
    """A copy of each table, and functions that move the rows: called so often, planned once."""
    await connection.execute(b"create schema kept")
    moves: dict[str, list[Composed]] = {move: [] for move in _MOVES}
    found = await connection.execute(_TABLES.encode())
    for table, columns in await found.fetchall():
        names = {"table": Identifier(table), "columns": SQL(", ").join(map(Identifier, columns))}
        await connection.execute(SQL(_COPY).format(**names))
        for move, steps in moves.items():
            steps.append(SQL(_MOVES[move]).format(**names))
    for move, steps in moves.items():
        function = SQL(_FUNCTION).format(move=Identifier(move), steps=Composed(steps))
        await connection.execute(function)


def _day() -> Operation[None]:
    for parent in ("fire", "history"):
        yield Ask("make_day", {"parent": parent, "instant": to_us(START)})


async def _connected(dsn: str) -> Connection:
    # Statements are prepared and planned once, as the product has it.
    connection = await psycopg.AsyncConnection[Row].connect(
        dsn, prepare_threshold=1, options="-c plan_cache_mode=force_generic_plan"
    )
    with suppress(errors.InsufficientPrivilege):  # then a deadlock is noticed after a second
        await connection.execute(b"set deadlock_timeout = '10ms'")
    await connection.commit()
    return connection
