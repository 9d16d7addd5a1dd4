"""A job in the caller's own transaction: the situation that needs a database of both."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.docs.situations import Open, Situation


def test_7_an_order_and_its_job_are_both_there_or_neither(
    situation: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_URL", postgres_url)
    shop = situation("07_in_my_transaction")
    with tables_of(shop, postgres_url) as engine:
        with Session(engine) as session:
            shop.buy(session, "a book")
            session.rollback()
        assert jobs_and_orders(shop, engine) == (0, 0)
        with Session(engine) as session, session.begin():
            shop.buy(session, "a book")
        assert jobs_and_orders(shop, engine) == (1, 1)


async def test_7_on_a_loop_too(
    situation: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_URL", postgres_url)
    shop = situation("07_in_my_transaction")
    loop = create_async_engine(spoken(postgres_url, "asyncpg"))
    with tables_of(shop, postgres_url) as engine:
        async with AsyncSession(loop) as session:
            await shop.buy_on_a_loop(session, "a book")
            await session.rollback()
        assert len(await shop.duly.jobs.alist()) == 0
        async with AsyncSession(loop) as session, session.begin():
            await shop.buy_on_a_loop(session, "a book")
        [job] = await shop.duly.jobs.alist()
        assert job.task == "confirm"
        with Session(engine) as reader:
            assert reader.scalars(select(shop.Order.item)).all() == ["a book"]
    await loop.dispose()
    await shop.duly.aclose()


@contextmanager
def tables_of(shop: Situation, url: str) -> Iterator[Engine]:
    engine = create_engine(spoken(url, "psycopg"))
    try:
        shop.Base.metadata.create_all(engine)
        yield engine
    finally:
        engine.dispose()


def jobs_and_orders(shop: Situation, engine: Engine) -> tuple[int, int]:
    with Session(engine) as session:
        orders = session.scalar(select(func.count()).select_from(shop.Order))
    return len(shop.duly.jobs.list()), orders or 0


def spoken(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")
