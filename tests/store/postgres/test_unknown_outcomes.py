"""The answer to a commit is lost: an error never says that nothing was done when it may have been.

The network is a proxy of our own, which cuts the reply after COMMIT and then does as it is told.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.model.event import Emitted
from duly.store import transactions
from duly.store.connect import connect
from duly.store.store import SqlStore
from tests.factories import call, plan
from tests.infrastructure.proxy import Network, Proxy
from tests.store.homes import furnish


@pytest.fixture
async def home(pg_dsn: str) -> str:
    await furnish(pg_dsn)
    return pg_dsn


@pytest.fixture
async def proxy(home: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(home) as between:
        yield between


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[SqlStore]:
    """A store behind the proxy; numbers are reserved, so that a call is one commit."""
    store = connect(proxy.url, deadline=timedelta(seconds=2))
    await store.open()
    await store.jobs.enqueue([call(title="first")])
    yield store
    proxy.network = Network.PASS
    await store.close()


@pytest.fixture
async def direct(home: str) -> AsyncIterator[SqlStore]:
    store = connect(home)
    await store.open()
    yield store
    await store.close()


async def titles(store: SqlStore) -> list[str]:
    return [job.title for job in await store.jobs.page()]


async def test_an_enqueue_that_cannot_be_looked_up_is_not_said_to_be_undone(
    store: SqlStore, proxy: Proxy, direct: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LOOKING", 0.3)
    proxy.network, proxy.committing = Network.LOSE_ANSWER_AND_CUT, b"second"
    with pytest.raises(OutcomeUnknown, match="commit, which may have succeeded") as unknown:
        await store.jobs.enqueue([call(title="second")])
    assert "nothing was done" not in str(unknown.value)
    assert await titles(direct) == ["first", "second"]


@pytest.mark.parametrize("key", [None, "k"])
async def test_an_enqueue_is_looked_up_when_the_database_can_be_reached_again(
    store: SqlStore, proxy: Proxy, direct: SqlStore, key: str | None
) -> None:
    proxy.network = Network.LOSE_ANSWER_AND_CUT
    if key is None:  # one statement, without a word about a commit
        proxy.committing = b"second"
    enqueueing = asyncio.create_task(store.jobs.enqueue([call(title="second", key=key)]))
    await proxy.until_connected(proxy.connected + 3)  # it looks, and does not get through
    assert proxy.network is Network.CUT
    proxy.network = Network.PASS
    [number] = await enqueueing
    assert [(job.id, job.title) for job in await direct.jobs.page()][1:] == [(number, "second")]


async def test_what_else_is_written_under_numbers_is_looked_up_too(
    store: SqlStore, proxy: Proxy, direct: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LOOKING", 0.3)
    writes: dict[str, Callable[[], Awaitable[object]]] = {
        "emit": lambda: store.events.emit([Emitted(name="said")]),
        "add": lambda: store.schedules.add([plan("one")]),
        "once": lambda: store.jobs.enqueue_once([call(title="once")], key="k", mark="m"),
        "run": lambda: store.schedules.run("one"),
    }
    for write in writes.values():
        proxy.network = Network.LOSE_ANSWER_AND_CUT
        with pytest.raises(OutcomeUnknown):
            await write()
        proxy.network = Network.PASS
    assert len((await direct.events.page()).events) == 1
    assert len(await direct.schedules.page()) == 1
    assert len(await titles(direct)) == 3


async def test_numbers_that_could_not_be_reserved_leave_nothing_unknown(
    proxy: Proxy, direct: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LOOKING", 0.3)
    store = connect(proxy.url, deadline=timedelta(seconds=2))
    await store.open()
    proxy.network = Network.LOSE_ANSWER_AND_CUT
    with pytest.raises(StoreUnavailable, match="nothing was done") as refused:
        await store.jobs.enqueue([call()])
    assert not isinstance(refused.value, OutcomeUnknown)
    assert await titles(direct) == []
    proxy.network = Network.PASS
    await store.close()
