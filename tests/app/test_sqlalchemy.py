"""Jobs and rows in one SQLAlchemy session: both are kept or undone, by savepoints too."""

from collections.abc import Iterable

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from duly import Duly, Job

MAKE = text("create table shop_order (number int)")
INSERT = text("insert into shop_order values (:number)")
ORDERS = text("select number from shop_order order by number")


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_session_on_postgres(postgres_url: str, driver: str) -> None:
    engine = create_engine(postgres_url.replace("postgresql:", f"postgresql+{driver}:"))
    jobs_and_rows_are_kept_or_undone_together(Duly(postgres_url), engine)


def test_a_session_on_sqlite(url: str) -> None:
    engine = create_engine(f"sqlite:///{url}")
    event.listen(engine, "connect", leave_transactions_to_sqlalchemy)
    event.listen(engine, "begin", begin)
    jobs_and_rows_are_kept_or_undone_together(Duly(url), engine)


def leave_transactions_to_sqlalchemy(connection: object, _: object) -> None:
    """Python's sqlite3 begins none for a savepoint; this is SQLAlchemy's own recipe."""
    connection.isolation_level = None  # type: ignore[attr-defined]


def begin(connection: Connection) -> None:
    connection.exec_driver_sql("begin immediate")


def jobs_and_rows_are_kept_or_undone_together(app: Duly, engine: Engine) -> None:
    @app.task
    def send(number: int) -> int:
        return number

    def buy(number: int) -> Job[int]:
        session.execute(INSERT, {"number": number})
        return send.using(connection=session).enqueue(number)

    def kept() -> tuple[set[int], list[int]]:
        with engine.connect() as reader:
            return numbers(app.jobs.list()), list(reader.scalars(ORDERS))

    with Session(engine) as session:
        session.execute(MAKE)
        session.commit()
        buy(1)
        session.rollback()
        assert kept() == (set(), [])
        outer = buy(2)
        undone = session.begin_nested()
        buy(3)
        undone.rollback()
        with session.begin_nested():
            inner = buy(4)
        session.commit()
        assert kept() == (numbers([outer, inner]), [2, 4])
        with session.begin_nested():  # the first statement of its transaction
            buy(5)
        session.rollback()
        assert kept() == (numbers([outer, inner]), [2, 4])
    engine.dispose()
    app.close()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_an_async_session_on_postgres(postgres_url: str, driver: str) -> None:
    address = postgres_url.replace("postgresql:", f"postgresql+{driver}:")
    await jobs_and_rows_of_an_async_session(Duly(postgres_url), address)


async def test_an_async_session_on_sqlite(url: str) -> None:
    await jobs_and_rows_of_an_async_session(Duly(url), f"sqlite+aiosqlite:///{url}")


async def jobs_and_rows_of_an_async_session(app: Duly, address: str) -> None:
    engine = create_async_engine(address)

    @app.task
    async def send(number: int) -> int:
        return number

    async def buy(number: int) -> Job[int]:
        await session.execute(INSERT, {"number": number})
        return await send.using(connection=session).aenqueue(number)

    async def kept() -> tuple[set[int], list[int]]:
        async with engine.connect() as reader:
            return numbers(await app.jobs.alist()), list(await reader.scalars(ORDERS))

    async with AsyncSession(engine) as session:
        await session.execute(MAKE)
        await session.commit()
        await buy(1)
        await session.rollback()
        assert await kept() == (set(), [])
        outer = await buy(2)
        undone = await session.begin_nested()
        await buy(3)
        await undone.rollback()
        async with session.begin_nested():
            inner = await buy(4)
        await session.commit()
        assert await kept() == (numbers([outer, inner]), [2, 4])
    await engine.dispose()
    await app.aclose()


def numbers(jobs: Iterable[Job[int]]) -> set[int]:
    return {job.id for job in jobs}
