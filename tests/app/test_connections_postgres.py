"""All that ``test_connections`` says, on PostgreSQL; and on connections that are awaited."""

import psycopg
import pytest

from tests.app import shop
from tests.app.test_connections import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


async def test_the_same_is_awaited_on_a_connection_that_waits(url: str) -> None:
    schedules = shop.duly.schedules
    async with await psycopg.AsyncConnection.connect(url) as connection:
        job = await shop.add.using(connection=connection, key="order 7").aenqueue(7)
        assert await shop.add.acancel(key="order 7", connection=connection)
        await schedules.aadd("every 1h", shop.add.bind(7), name="customer 7", connection=connection)
        await schedules.aedit("customer 7", rule="every 3h", connection=connection)
        await schedules.apause("customer 7", connection=connection)
        await schedules.aresume("customer 7", connection=connection)
        assert len(await schedules.askip_next("customer 7", count=2, connection=connection)) == 2
        assert (await schedules.arun("customer 7", connection=connection)).job_id is not None
        seen = await connection.execute("select name, rule from duly.schedule")
        assert await seen.fetchall() == [("customer 7", "every 3h")]
        await schedules.aremove("customer 7", connection=connection)
        ended = await connection.execute("select id, state from duly.history")
        assert await ended.fetchall() == [(job.id, "cancelled")]
