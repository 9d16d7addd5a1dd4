"""All that ``test_connections`` says, on PostgreSQL; and on connections that are awaited."""

from pathlib import Path

import psycopg
import pytest

from tests.app import shop
from tests.app.test_connections import *  # noqa: F403
from tests.app.waiting import eventually


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


def test_a_transaction_that_holds_a_schedule_keeps_no_worker_from_other_work(
    url: str, tmp_path: Path
) -> None:
    """The end of the held schedule's own job is written when the transaction is over."""
    schedules, sign = shop.duly.schedules, str(tmp_path / "sign")
    schedules.add("every 1000h", shop.hold.bind(sign), name="held")
    with psycopg.connect(url) as connection, shop.duly.running():
        number = schedules.run("held").job_id
        assert number is not None
        eventually(lambda: shop.is_up(f"{sign}.began"), "the job to begin")
        schedules.pause("held", connection=connection)
        shop.put_up(f"{sign}.go")
        for other in range(3):
            assert shop.add.enqueue(other).result(timeout="9s") == other + 2
        assert shop.duly.jobs.get(number).state == "running"
        connection.rollback()
        eventually(lambda: shop.duly.jobs.get(number).state == "succeeded", "the end of its job")
