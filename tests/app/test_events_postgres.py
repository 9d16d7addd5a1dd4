"""All that ``test_events`` says, on PostgreSQL; and on connections that are awaited."""

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from duly.errors import InvalidValue
from tests.app.test_events import *  # noqa: F403
from tests.app.test_events import Shop


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


async def test_it_is_awaited_on_connections_that_wait(real: Shop, url: str) -> None:
    duly = real.duly
    async with await psycopg.AsyncConnection.connect(url) as plain:
        with pytest.raises(InvalidValue, match=r"await duly\.aemit"):
            duly.emit("a", connection=plain)
        await duly.aemit("psycopg", {"x": 1}, connection=plain)
        await plain.rollback()
        await duly.aemit("psycopg", {"x": 2}, connection=plain)
    other = await asyncpg.connect(url)
    async with other.transaction():
        await duly.aemit("asyncpg", connection=other)
    await other.close()
    engine = create_async_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    async with AsyncSession(engine) as session, session.begin():
        await duly.aemit("sqlalchemy", connection=session)
    await engine.dispose()
    await duly.aemit("own")
    found = [(event.name, dict(event.payload)) for event in await duly.events.alist()]
    assert found == [("own", {}), ("sqlalchemy", {}), ("asyncpg", {}), ("psycopg", {"x": 2})]
    await duly.aclose()


def test_a_connection_that_cannot_be_awaited_says_so(real: Shop, url: str) -> None:
    with psycopg.connect(url) as connection:
        coroutine = real.duly.aemit("a", connection=connection)
        with pytest.raises(InvalidValue, match="without await"):
            coroutine.send(None)
