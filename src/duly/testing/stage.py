"""Where interleavings are played: a database that is put back, and those who act on it."""

import asyncio
import re
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeAlias, cast

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Composed, Identifier

from duly.rules.instants import to_us
from duly.store.database import Ask, Dialect, Operation, Row, Start, T
from duly.store.migrate import migrate
from duly.store.postgres.database import PostgresDatabase
from duly.store.postgres.faults import PASSING
from duly.store.postgres.text import for_psycopg
from duly.store.statements import statements

Connection: TypeAlias = psycopg.AsyncConnection[Row]

# A session: it gives out operations, each a transaction, and gets back what they returned.
Program: TypeAlias = Generator[Start[Any], Any, object]

START = datetime(2026, 3, 2, 12, tzinfo=UTC)

_GLANCE = 0.002  # seconds between two looks at whether a step waits for a lock
_LONGEST = 10.0  # seconds after which a deadlock that is not noticed is a fault of ours

_NOTICED = re.compile(r"\bfor (no key )?update\b|\bnextval\(")

_for_psycopg = cache(for_psycopg)

_TABLES = """
select relname
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
            for (table,) in await stage.look(_TABLES):
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
        for (table,) in await self.look(_TABLES):
            name = Identifier(table)
            await self._own.execute(
                SQL("create table kept.{0} as table duly.{0}").format(name), prepare=False
            )
            pieces.append(SQL("delete from duly.{};").format(name))
            kept = await self._own.execute(SQL("select from kept.{} limit 1").format(name))
            if kept.rowcount:
                pieces.append(SQL("insert into duly.{0} select * from kept.{0};").format(name))
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

    async def is_deadlocked(self, player: "Player", players: "Sequence[Player]") -> bool:
        waits_for = {
            other.pid: await self.blockers(other.connection) for other in players if other.waits
        }
        reached: set[int] = set()
        ahead = list(waits_for.get(player.pid, ()))
        while ahead:
            pid = ahead.pop()
            if pid not in reached:
                reached.add(pid)
                ahead += waits_for.get(pid, ())
        return player.pid in reached


class Player:
    """A session: its transactions one after another, each a sequence of steps."""

    def __init__(
        self, name: str, program: Program, *, connection: Connection, story: list[str]
    ) -> None:
        self.name = name
        self.connection = connection
        self.result: object = None
        self.done = False
        self.waits = False
        self.freed_others = False  # it gave up its locks, and nobody has looked yet who goes on
        self.deadlocks = 0
        self._program = program
        self._story = story
        self._start: Start[Any]
        self._operation: Operation[Any]
        self._ask: Ask | None = None  # none: what is left is to commit, or to roll back
        self._value: object = None
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._next_transaction()

    @property
    def pid(self) -> int:
        return self.connection.info.backend_pid

    def begin_step(self, stage: Stage) -> None:
        self._story.append(f"{self.name}: {self._what}")
        self._task = asyncio.create_task(self._act(stage))

    @property
    def task(self) -> "asyncio.Task[None]":
        """The step that is under way."""
        if self._task is None:
            raise RuntimeError(f"{self.name} has begun no step")
        return self._task

    async def ended_or_blocked(self, stage: Stage) -> list[int]:
        """Wait until the step is over, or until it is known for whom it waits."""
        while True:
            await asyncio.wait({self.task}, timeout=_GLANCE)
            if self.task.done():
                await self.ended()
                return []
            blockers = await stage.blockers(self.connection)
            if blockers:
                if not self.waits:
                    self._story[-1] += " … waits"
                self.waits = True
                return blockers

    async def ended(self) -> None:
        """Take in the answer to a step, and get the next one ready."""
        if self.waits:
            self._story.append(f"{self.name}: … goes on")
        self.waits = False
        error = self.task.exception()
        self._task = None
        if isinstance(error, PASSING):
            self._story.append(f"{self.name}: begins again: {type(error).__name__}")
            self.deadlocks += 1
            await self._undo()
            self._begin()
        elif isinstance(error, Exception):
            await self._undo()
            self._next_transaction(error)

    async def leave(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait({self._task})
            await self.connection.rollback()
        self._operation.close()

    @property
    def _what(self) -> str:
        if self._ask:
            return self._ask.statement
        return f"roll back: {type(self._error).__name__}" if self._error else "commit"

    async def _act(self, stage: Stage) -> None:
        """One step. A last look and the commit are one: nobody can notice what lies between."""
        if self._ask:
            unnoticed = stage.only_reads(self._ask.statement)
            more = self._go_on(await stage.rows(self.connection, self._ask))
            if more or not unnoticed:
                return
            self._story[-1] += f", {self._what}"
        await (self.connection.rollback() if self._error else self.connection.commit())
        self.freed_others = True
        self._next_transaction(self._error)

    async def _undo(self) -> None:
        await self.connection.rollback()
        self.freed_others = True

    def _next_transaction(self, error: Exception | None = None) -> None:
        try:
            if error:
                self._start = self._program.throw(error)
            else:
                self._start = self._program.send(self._value)
        except StopIteration as end:
            self.result, self.done = end.value, True
        except Exception as raised:  # noqa: BLE001 - what a session came to is for the check
            self.result, self.done = raised, True
        else:
            self._begin()

    def _begin(self) -> None:
        self._operation = self._start()
        self._go_on(None)

    def _go_on(self, rows: list[Row] | None) -> bool:
        """Whether another statement follows."""
        self._value = self._error = self._ask = None
        try:
            self._ask = self._operation.send(rows) if rows is not None else next(self._operation)
        except StopIteration as end:
            self._value = end.value
        except Exception as error:  # noqa: BLE001 - an operation may refuse; its session sees it
            self._error = error
        return self._ask is not None


async def first_to_end(players: Sequence[Player]) -> Player:
    """Whose step is over first, of those that wait."""
    tasks = {player.task: player for player in players}
    async with asyncio.timeout(_LONGEST):
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return tasks[done.pop()]


def _day() -> Operation[None]:
    for parent in ("fire", "history"):
        yield Ask("make_day", {"parent": parent, "instant": to_us(START)})


async def _connected(dsn: str) -> Connection:
    connection = await psycopg.AsyncConnection[Row].connect(dsn)
    with suppress(errors.InsufficientPrivilege):  # then a deadlock is noticed after a second
        await connection.execute(b"set deadlock_timeout = '10ms'")
    await connection.commit()
    return connection
