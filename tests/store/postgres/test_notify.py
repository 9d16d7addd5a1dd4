"""Nudges: heard by others, few, and never in the way."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg

from duly.clock import Timeout
from duly.store.database import Dialect
from duly.store.postgres.connections import Connector
from duly.store.postgres.database import PostgresDatabase
from duly.store.postgres.notify import EVERYTHING, Notifier, NotifyListener
from tests.infrastructure.proxy import Network, Proxy
from tests.store.postgres.conftest import Opened, Other
from tests.store.postgres.notes import end_process

DIALECT = Dialect("postgres")


class Heard(asyncio.Queue[str]):
    def __call__(self, topic: str) -> None:
        self.put_nowait(topic)

    async def next(self) -> str:
        async with Timeout(10):
            return await self.get()


async def listening(dsn: str, opened: Opened) -> tuple[PostgresDatabase, Heard]:
    database, heard = await opened(dsn, dialect=DIALECT), Heard()
    database.listen(heard)
    assert await heard.next() == EVERYTHING
    assert database.is_listening
    return database, heard


async def test_a_nudge_is_heard_by_another_process_and_not_by_its_sender(
    dsn: str, opened: Opened
) -> None:
    one, heard_by_one = await listening(dsn, opened)
    two, heard_by_two = await listening(dsn, opened)
    one.nudge(["queue:mail", "queue:reports"])
    assert [await heard_by_two.next(), await heard_by_two.next()] == ["queue:mail", "queue:reports"]
    two.nudge(["answer"])
    assert await heard_by_one.next() == "answer"


async def test_the_first_nudge_goes_at_once_and_a_thousand_more_are_one(
    dsn: str, other: Other
) -> None:
    await other.execute("listen duly")
    connect = Connector(dsn, dialect=DIALECT, deadline=timedelta(seconds=5))
    # So long a quiet time that nothing but its own end can be what ends it.
    notifier = Notifier(connect, deadline=timedelta(seconds=5), quiet=timedelta(seconds=0.5))
    began = time.monotonic()
    notifier.nudge(["a"])
    async for _ in other.notifies(timeout=5, stop_after=1):
        assert time.monotonic() - began < 0.4
    for _ in range(1000):
        notifier.nudge(["a"])
    notifier.nudge(["b"])
    heard = {said.payload: time.monotonic() - began async for said in other.notifies(timeout=1)}
    assert list(heard) == ["b", "a"]
    assert heard["b"] < 0.4
    assert heard["a"] >= 0.5
    await notifier.close()


async def test_a_listener_whose_connection_ends_begins_again_and_says_so(
    dsn: str, opened: Opened, other: Other
) -> None:
    database, heard = await listening(dsn, opened)
    end_process(dsn, await process_of_the_listener(other))
    assert await heard.next() == EVERYTHING
    assert database.is_listening
    await other.execute("notify duly, 'after'")
    assert await heard.next() == "after"


async def test_a_notifier_whose_connection_ends_connects_with_the_next_nudge(
    dsn: str, opened: Opened
) -> None:
    sender, _ = await listening(dsn, opened)
    _, heard = await listening(dsn, opened)
    assert sender._notifier
    before = sender._notifier.process
    assert before
    end_process(dsn, before)
    sender.nudge(["after"])
    assert await heard.next() == "after"
    assert sender._notifier.process != before


async def test_a_database_that_is_away_makes_a_nudge_vanish_without_an_error(
    proxy: Proxy, opened: Opened
) -> None:
    database, heard = await listening(proxy.dsn, opened)
    proxy.network = Network.CUT
    proxy.cut()
    database.nudge(["lost"])
    assert database._notifier
    assert database._notifier._sending
    await database._notifier._sending
    proxy.network = Network.PASS
    assert await heard.next() == EVERYTHING


async def test_a_topic_that_cannot_be_sent_does_not_stop_the_next(dsn: str, opened: Opened) -> None:
    sender, _ = await listening(dsn, opened)
    _, heard = await listening(dsn, opened)
    sender.nudge(["nul\0"])
    assert sender._notifier
    assert sender._notifier._sending
    await sender._notifier._sending
    sender.nudge(["x" * 9000])
    await sender._notifier._sending
    sender.nudge(["fine"])
    assert await heard.next() == "fine"


async def test_where_notifications_do_not_arrive_nobody_claims_to_listen(
    proxy: Proxy,
) -> None:
    proxy.network = Network.DEAF
    async with listener(proxy) as (deaf, heard):
        # Three connections: the notifier's, the first that heard nothing, and the next attempt.
        await proxy.until_connected(3)
        assert (deaf.listening, heard.qsize()) == (False, 0)
        proxy.network = Network.PASS
        assert (await heard.next(), deaf.listening) == (EVERYTHING, True)
    assert (deaf.listening, heard.qsize()) == (False, 0)


@asynccontextmanager
async def listener(proxy: Proxy) -> AsyncIterator[tuple[NotifyListener, Heard]]:
    connect = Connector(proxy.dsn, dialect=DIALECT, deadline=timedelta(seconds=5))
    notifier, heard = Notifier(connect, deadline=timedelta(seconds=5)), Heard()
    soon = timedelta(seconds=0.05)
    deaf = NotifyListener(connect, notifier, heard, patience=timedelta(seconds=0.3), again=soon)
    deaf.start()
    yield deaf, heard
    await deaf.close()
    await notifier.close()


async def test_a_listener_that_fails_does_not_silence_the_others(dsn: str, opened: Opened) -> None:
    unhandled = Heard()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: unhandled(str(context["exception"]))
    )

    def fails(topic: str) -> None:
        raise ValueError(f"{topic} is too much")

    database, heard = await listening(dsn, opened)
    database._listeners.insert(0, fails)
    with psycopg.connect(dsn) as connection:
        connection.execute("notify duly, 'mail'")
    assert await heard.next() == "mail"
    assert await unhandled.next() == "mail is too much"
    assert database.is_listening


async def process_of_the_listener(other: Other) -> int:
    asked = await other.execute(
        "select pid from pg_stat_activity where query = 'listen duly'"
        " and datname = current_database()"
    )
    ((process,),) = await asked.fetchall()
    return int(process)


async def test_a_process_that_is_told_nothing_does_not_listen(dsn: str, opened: Opened) -> None:
    database = await opened(dsn, dialect=DIALECT)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    heard = Heard()
    database.listen(heard)
    assert await heard.next() == EVERYTHING
