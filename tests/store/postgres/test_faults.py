"""What callers are told when the database goes away, and how soon it works again."""

import asyncio
import time
from datetime import timedelta

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.clock import Timeout
from duly.errors import InvalidValue, OutcomeUnknown, StoreUnavailable
from duly.store.database import Ask, Operation
from duly.store.postgres.database import PostgresDatabase
from tests.infrastructure.postgres import with_parameters
from tests.infrastructure.proxy import Network, Proxy
from tests.store.postgres.conftest import QUIET, Opened, Other
from tests.store.postgres.notes import add, ask, end_process, is_waiting_for_a_lock, notes_in


async def test_a_connection_lost_between_statements_means_that_nothing_was_done(
    database: PostgresDatabase, dsn: str
) -> None:
    def ended_halfway() -> Operation[None]:
        yield Ask("add", {"id": 1, "text": ""})
        ((process,),) = yield Ask("process")
        end_process(dsn, process)
        yield Ask("add", {"id": 2, "text": ""})

    with pytest.raises(StoreUnavailable, match=r"nothing was done: terminating connection") as lost:
        await database.write(ended_halfway)
    assert not isinstance(lost.value, OutcomeUnknown)
    assert notes_in(dsn) == []
    assert await database.write(add(1)) == 1


async def test_a_connection_ended_while_idle_is_replaced_before_anybody_notices(
    dsn: str, opened: Opened
) -> None:
    database = await opened(dsn, connections=1)
    ((before,),) = await database.read(ask("process"))
    end_process(dsn, before)
    ((after,),) = await database.read(ask("process"))
    assert after != before


LOST_COMMITS = {
    Network.LOSE_COMMIT: [],
    Network.LOSE_ANSWER_TO_COMMIT: [1],
    Network.SWALLOW_ANSWER_TO_COMMIT: [1],
}


@pytest.mark.parametrize("network", LOST_COMMITS, ids=lambda network: network.name.lower())
async def test_a_lost_answer_to_a_commit_is_an_unknown_outcome(
    behind_proxy: PostgresDatabase, proxy: Proxy, dsn: str, network: Network
) -> None:
    await behind_proxy.write(add(10))
    proxy.network = network
    with pytest.raises(OutcomeUnknown, match="during a commit, which may have succeeded"):
        await behind_proxy.write(add(1))
    proxy.network = Network.PASS
    assert notes_in(dsn) == [*LOST_COMMITS[network], 10]
    assert await behind_proxy.write(add(2)) == 1


async def test_a_process_that_ends_during_its_commit_is_an_unknown_outcome(
    database: PostgresDatabase, dsn: str, other: Other
) -> None:
    # A deferred trigger that waits for a lock holds the commit still while we end its process.
    await other.execute(
        """
        create function wait() returns trigger language plpgsql as
            $$ begin lock table gate in share mode; return null; end $$;
        create table gate ();
        create constraint trigger waits after insert on note deferrable initially deferred
            for each row execute function wait();
        """
    )
    await other.execute("begin; lock table gate")
    writing = asyncio.create_task(database.write(add(1)))
    await is_waiting_for_a_lock(dsn)
    await other.execute("commit")
    await writing  # it does commit when it may
    await other.execute("begin; lock table gate")
    writing = asyncio.create_task(database.write(add(2)))
    await is_waiting_for_a_lock(dsn)
    await other.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
        " and datname = current_database()"
    )
    with pytest.raises(OutcomeUnknown):
        await writing
    await other.execute("commit")
    assert notes_in(dsn) == [1]


async def test_a_commit_that_the_server_refuses_is_not_unknown(
    database: PostgresDatabase, dsn: str, other: Other
) -> None:
    await other.execute("alter table note add unique (text) deferrable initially deferred")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await database.write(add(1, 2, text="same"))
    assert notes_in(dsn) == []


async def test_a_network_that_swallows_everything_ends_by_the_deadline(
    behind_proxy: PostgresDatabase, proxy: Proxy, dsn: str
) -> None:
    await behind_proxy.write(add(1))
    proxy.network = Network.BLACKHOLE
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"an answer did not come within 0.5 s") as lost:
        await behind_proxy.write(add(2))
    with pytest.raises(StoreUnavailable, match=r"a connection did not come within 0.5 s"):
        await behind_proxy.write(add(2))
    assert 1 <= time.monotonic() - began < 3
    assert not isinstance(lost.value, OutcomeUnknown)
    proxy.network = Network.PASS
    assert await behind_proxy.write(add(3)) == 1
    assert notes_in(dsn) == [1, 3]


async def test_after_a_failover_one_call_pays_and_not_one_for_each_connection(
    behind_proxy: PostgresDatabase, proxy: Proxy, dsn: str
) -> None:
    waits = (behind_proxy.read(ask("wait", seconds=0)) for _ in range(2))
    await asyncio.gather(*waits)
    assert proxy.connected == 2
    proxy.forsake()
    with pytest.raises(StoreUnavailable, match=r"within 0\.5 s"):
        await behind_proxy.write(add(1))
    assert await behind_proxy.write(add(2)) == 1
    assert notes_in(dsn) == [2]


async def test_the_first_call_after_the_network_is_back_succeeds(
    behind_proxy: PostgresDatabase, proxy: Proxy
) -> None:
    await asyncio.gather(*(behind_proxy.write(add(number)) for number in range(4)))
    proxy.network = Network.CUT
    proxy.cut()
    with pytest.raises(StoreUnavailable, match="is not available, and nothing was done"):
        await behind_proxy.write(add(10))
    proxy.network = Network.PASS
    assert await behind_proxy.write(add(11)) == 1


async def test_a_cancelled_call_ends_at_once_and_its_connection_is_not_used_again(
    behind_proxy: PostgresDatabase, proxy: Proxy, dsn: str
) -> None:
    proxy.network = Network.BLACKHOLE
    writing = asyncio.create_task(behind_proxy.write(add(1)))
    await asyncio.wait([writing], timeout=0.1)
    writing.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert time.monotonic() - began < 0.2
    proxy.network = Network.PASS
    before = proxy.connected
    assert await behind_proxy.write(add(2)) == 1
    assert proxy.connected == before + 1
    assert notes_in(dsn) == [2]


async def test_a_statement_that_takes_too_long_is_ended_by_the_server(
    dsn: str, opened: Opened
) -> None:
    database = await opened(with_parameters(dsn, options="-c statement_timeout=50"))
    with pytest.raises(StoreUnavailable, match="canceling statement due to statement timeout"):
        await database.read(ask("wait", seconds=5))


async def test_where_sessions_are_shared_a_statement_is_also_ended_by_the_server(
    dsn: str, opened: Opened, other: Other
) -> None:
    bare = QUIET.without_features()
    database = await opened(dsn, dialect=bare, deadline=timedelta(seconds=0.2))
    with pytest.raises(StoreUnavailable, match=r"within 0.2 s|statement timeout"):
        await database.read(ask("wait", seconds=60))
    running = "select 1 from pg_stat_activity where query like '%%pg_sleep%%' and state = 'active'"
    async with Timeout(5):
        while await (await other.execute(running + " and pid <> pg_backend_pid()")).fetchone():
            pass


async def test_an_operation_that_pauses_too_long_between_statements_is_ended_by_the_server(
    dsn: str, opened: Opened
) -> None:
    def pauses() -> Operation[None]:
        yield Ask("add", {"id": 1, "text": ""})
        with psycopg.connect(dsn) as connection:
            connection.execute("select pg_sleep(0.3)")
        yield Ask("add", {"id": 2, "text": ""})

    url = with_parameters(dsn, options="-c idle_in_transaction_session_timeout=50")
    database = await opened(url)
    with pytest.raises(StoreUnavailable, match="idle-in-transaction timeout"):
        await database.write(pauses)
    assert await database.write(add(1)) == 1


async def test_a_server_that_may_only_read_is_not_available(
    dsn: str, opened: Opened, other: Other
) -> None:
    database = await opened(with_parameters(dsn, options="-c default_transaction_read_only=on"))
    with pytest.raises(StoreUnavailable, match="read-only transaction"):
        await database.write(add(1))
    assert notes_in(dsn) == []


async def test_all_connections_in_use_is_said_when_the_deadline_passes(
    dsn: str, opened: Opened
) -> None:
    database = await opened(dsn, connections=1, deadline=timedelta(seconds=0.3))
    async with database._connections.one():
        with pytest.raises(StoreUnavailable, match=r"a connection did not come within 0\.3 s"):
            await database.write(add(1))
    assert await database.write(add(1)) == 1


async def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    nowhere = PostgresDatabase(
        "postgresql://me:secret@127.0.0.1:1/app", dialect=QUIET, statements={}
    )
    with pytest.raises(StoreUnavailable, match=r"database app at 127\.0\.0\.1:1 is not") as refused:
        await nowhere.open()
    assert "refused" in str(refused.value)
    assert "secret" not in str(refused.value)
    await nowhere.close()


def test_an_address_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(InvalidValue, match="written as postgresql://user") as refused:
        PostgresDatabase("postgresql://me:secret@[::1/app", statements={})
    assert "secret" not in str(refused.value)


async def test_too_many_connections_are_said_by_the_server(dsn: str, other: Other) -> None:
    await other.execute("create role crowded login connection limit 0")
    try:
        crowded = PostgresDatabase(make_conninfo(dsn, user="crowded"), dialect=QUIET, statements={})
        with pytest.raises(StoreUnavailable, match="too many connections for role"):
            await crowded.open()
        await crowded.close()
    finally:
        await other.execute("drop role crowded")
