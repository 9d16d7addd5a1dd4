"""Programs with a connection of their own and a transaction in it, one for each driver.

Each chooses what makes life hardest for a guest on its connection: rows as dictionaries, another
writer of JSON. None says a word to its database before it is asked to write.
"""

import json
import multiprocessing
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import Connection as Orders
from typing import Any, TypeAlias, TypeVar

import asyncpg  # type: ignore[import-untyped]
import psycopg
import psycopg2  # type: ignore[import-untyped]
import psycopg2.extras  # type: ignore[import-untyped]
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_scoped_session,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from duly.model.job import JobRequest
from duly.store.caller_connection import Verb, Work, aenqueue_on, awrite_on, enqueue_on, write_on
from tests.store.django_program import serve
from tests.store.homes import Home

T = TypeVar("T")

PROCESSES = multiprocessing.get_context("spawn")


class Caller:
    """What a test can make a program do, in a transaction that is begun when it is needed."""

    async def enqueue(self, *calls: JobRequest) -> list[int]:
        raise NotImplementedError

    async def write(self, work: Work[T], *, decides: bool = True) -> T:
        """Have something else written; ``work`` may have to travel to another process."""
        raise NotImplementedError

    async def seen(self) -> list[int]:
        """The numbers of the jobs, as the program sees them in its transaction."""
        raise NotImplementedError

    async def commit(self) -> None:
        raise NotImplementedError

    async def rollback(self) -> None:
        raise NotImplementedError


Calling: TypeAlias = Callable[[Home], AbstractAsyncContextManager[Caller]]


def verb(decides: bool) -> Verb:
    return Verb("duly", "write", decides=decides)


@dataclass
class Blocking(Caller):
    connection: Any
    ask: Callable[[], list[int]]

    async def enqueue(self, *calls: JobRequest) -> list[int]:
        return enqueue_on(self.connection, calls)

    async def write(self, work: Work[T], *, decides: bool = True) -> T:
        return write_on(self.connection, work, verb(decides))

    async def seen(self) -> list[int]:
        return self.ask()

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()


@dataclass
class Awaiting(Caller):
    connection: Any
    ends: Any  # what can commit and roll back
    ask: Callable[[], Any]

    async def enqueue(self, *calls: JobRequest) -> list[int]:
        return await aenqueue_on(self.connection, calls)

    async def write(self, work: Work[T], *, decides: bool = True) -> T:
        return await awrite_on(self.connection, work, verb(decides))

    async def seen(self) -> list[int]:
        return list(await self.ask())

    async def commit(self) -> None:
        await self.ends.commit()

    async def rollback(self) -> None:
        await self.ends.rollback()


@asynccontextmanager
async def psycopg_connection(home: Home, *, alone: bool = False) -> AsyncIterator[Caller]:
    with psycopg.connect(home.url, row_factory=dict_row, autocommit=alone) as connection:
        connection.cursor_factory = psycopg.RawCursor
        yield Blocking(
            connection, lambda: [row["id"] for row in connection.execute(home.question.encode())]
        )


@asynccontextmanager
async def psycopg_async_connection(home: Home, *, alone: bool = False) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(
        home.url, row_factory=dict_row, autocommit=alone
    ) as connection:

        async def ask() -> list[int]:
            cursor = await connection.execute(home.question.encode())
            return [row["id"] async for row in cursor]

        yield Awaiting(connection, connection, ask)


@asynccontextmanager
async def psycopg2_connection(home: Home, *, alone: bool = False) -> AsyncIterator[Caller]:
    factory = psycopg2.extras.RealDictCursor
    connection = psycopg2.connect(home.url, cursor_factory=factory)
    connection.autocommit = alone

    def ask() -> list[int]:
        with connection.cursor() as cursor:
            cursor.execute(home.question)
            return [row["id"] for row in cursor]

    yield Blocking(connection, ask)
    connection.close()


@asynccontextmanager
async def asyncpg_connection(home: Home, *, alone: bool = False) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(home.url)
    yield await in_asyncpg(connection, home, alone=alone)
    await connection.close()


@asynccontextmanager
async def asyncpg_pool(home: Home) -> AsyncIterator[Caller]:
    async with (
        asyncpg.create_pool(home.url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
    ):
        yield await in_asyncpg(connection, home)


async def in_asyncpg(connection: Any, home: Home, *, alone: bool = False) -> Caller:  # noqa: ANN401
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
    )

    async def ask() -> list[int]:
        return [record["id"] for record in await connection.fetch(home.question)]

    transaction = connection.transaction()
    if not alone:
        await transaction.start()
    return Awaiting(connection, transaction, ask)


@asynccontextmanager
async def sqlite3_connection(home: Home, *, alone: bool = False) -> AsyncIterator[Caller]:
    connection = sqlite3.connect(home.path, isolation_level=None if alone else "DEFERRED")
    connection.row_factory = lambda cursor, row: dict(
        zip((column[0] for column in cursor.description), row, strict=True)
    )
    yield Blocking(connection, lambda: [row["id"] for row in connection.execute(home.question)])
    connection.close()


def sqlalchemy_connection(driver: str, **options: Any) -> Calling:
    @asynccontextmanager
    async def calling(home: Home) -> AsyncIterator[Caller]:
        with engine(home, driver, **options) as made, made.connect() as connection:
            question = sqlalchemy.text(home.question)
            yield Blocking(connection, lambda: list(connection.scalars(question)))

    return calling


def sqlalchemy_session(driver: str) -> Calling:
    @asynccontextmanager
    async def calling(home: Home) -> AsyncIterator[Caller]:
        with engine(home, driver) as made, Session(made) as session:
            question = sqlalchemy.text(home.question)
            yield Blocking(session, lambda: list(session.scalars(question)))

    return calling


@asynccontextmanager
async def sqlalchemy_scoped_session(home: Home) -> AsyncIterator[Caller]:
    with engine(home, "psycopg") as made:
        session = scoped_session(sessionmaker(made))
        yield Blocking(session, lambda: list(session.scalars(sqlalchemy.text(home.question))))
        session.remove()


@contextmanager
def engine(home: Home, driver: str, **options: Any) -> Iterator[sqlalchemy.Engine]:
    made = sqlalchemy.create_engine(home.through(driver), **options)
    yield made
    made.dispose()


def sqlalchemy_async(driver: str, kind: Callable[[Any], Any], **options: Any) -> Calling:
    @asynccontextmanager
    async def calling(home: Home) -> AsyncIterator[Caller]:
        made = create_async_engine(home.through(driver), **options)
        connection = kind(made)

        async def ask() -> list[int]:
            return list((await connection.execute(sqlalchemy.text(home.question))).scalars())

        if isinstance(connection, AsyncConnection):
            await connection.start()
        yield Awaiting(connection, connection, ask)
        await connection.close()
        await made.dispose()

    return calling


@asynccontextmanager
async def django_connection(home: Home, *, alone: bool = False) -> AsyncIterator[Caller]:
    program = django_program()
    program.answer("begin", home.url, home.question, not alone)
    yield program
    program.answer("end")


@dataclass
class Program(Caller):
    """Another process, which does what it is asked."""

    orders: Orders

    async def enqueue(self, *calls: JobRequest) -> list[int]:
        return list(self.answer("enqueue", *calls))

    async def write(self, work: Work[T], *, decides: bool = True) -> T:
        result: T = self.answer("write", work, verb(decides))
        return result

    async def seen(self) -> list[int]:
        return list(self.answer("seen"))

    async def commit(self) -> None:
        self.answer("commit")

    async def rollback(self) -> None:
        self.answer("rollback")

    def answer(self, order: str, *values: object) -> Any:  # noqa: ANN401
        self.orders.send((order, values))
        answer, error = self.orders.recv()
        if error:
            raise error
        return answer


@cache
def django_program() -> Program:
    """One for all tests, because it takes a second to start. It ends when we do."""
    ours, theirs = PROCESSES.Pipe()
    PROCESSES.Process(target=serve, args=(theirs,), daemon=True).start()
    theirs.close()
    return Program(ours)


POSTGRES: dict[str, Calling] = {
    "psycopg": psycopg_connection,
    "psycopg async": psycopg_async_connection,
    "psycopg2": psycopg2_connection,
    "asyncpg": asyncpg_connection,
    "asyncpg pool": asyncpg_pool,
    "SQLAlchemy Connection": sqlalchemy_connection("psycopg"),
    "SQLAlchemy Session": sqlalchemy_session("psycopg2"),
    "SQLAlchemy scoped_session": sqlalchemy_scoped_session,
    "SQLAlchemy AsyncConnection": sqlalchemy_async("psycopg", lambda made: made.connect()),
    "SQLAlchemy AsyncSession": sqlalchemy_async("asyncpg", AsyncSession),
    "SQLAlchemy async_scoped_session": sqlalchemy_async(
        "asyncpg",
        lambda made: async_scoped_session(lambda: AsyncSession(made), scopefunc=lambda: 1),  # type: ignore[arg-type]
    ),
    "Django": django_connection,
}
SQLITE: dict[str, Calling] = {
    "sqlite3": sqlite3_connection,
    "SQLAlchemy Connection": sqlalchemy_connection("pysqlite"),
    "SQLAlchemy Session": sqlalchemy_session("pysqlite"),
    "SQLAlchemy AsyncSession": sqlalchemy_async("aiosqlite", AsyncSession),
    "Django": django_connection,
}

# The other ways in which drivers write the place of a value.
POSTGRES_STYLES: dict[str, Calling] = {
    "SQLAlchemy with %s": sqlalchemy_connection("psycopg2", paramstyle="format"),
}
SQLITE_STYLES: dict[str, Calling] = {
    "SQLAlchemy with :name": sqlalchemy_connection("pysqlite", paramstyle="named"),
}

# The same without a transaction: each statement is committed when it is done.
AUTOCOMMIT = {"isolation_level": "AUTOCOMMIT"}
POSTGRES_ALONE: dict[str, Calling] = {
    "psycopg": partial(psycopg_connection, alone=True),
    "psycopg async": partial(psycopg_async_connection, alone=True),
    "psycopg2": partial(psycopg2_connection, alone=True),
    "asyncpg": partial(asyncpg_connection, alone=True),
    "SQLAlchemy Connection": sqlalchemy_connection("psycopg2", **AUTOCOMMIT),
    "SQLAlchemy AsyncConnection": sqlalchemy_async(
        "asyncpg", lambda made: made.connect(), **AUTOCOMMIT
    ),
    "Django": partial(django_connection, alone=True),
}
SQLITE_ALONE: dict[str, Calling] = {
    "sqlite3": partial(sqlite3_connection, alone=True),
    "SQLAlchemy Connection": sqlalchemy_connection("pysqlite", **AUTOCOMMIT),
    "SQLAlchemy AsyncConnection": sqlalchemy_async(
        "aiosqlite", lambda made: made.connect(), **AUTOCOMMIT
    ),
    "Django": partial(django_connection, alone=True),
}
