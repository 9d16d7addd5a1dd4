"""A task's own transaction on PostgreSQL: lost connections, and what others do meanwhile.

``tests/store/test_completing.py`` has what holds on every store.
"""

import asyncio
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from duly.clock import Timeout
from duly.errors import LeaseLost, OutcomeUnknown, StoreUnavailable, WrongState
from duly.model.job import Claimed
from duly.model.states import State
from duly.store.store import SqlStore
from tests.infrastructure.proxy import Network, Proxy
from tests.store.completing import (
    LEASE,
    Leave,
    completing,
    given_to_another,
    notes_in,
    state,
    take_back,
)
from tests.store.postgres.notes import end_process

SHORT = timedelta(seconds=1.5)


async def test_a_job_that_was_taken_back_keeps_nothing_of_what_was_written(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    again: list[Claimed] = []

    async def lose_it(_: object) -> None:
        again.append(await given_to_another(store, job))

    completion = completing(dsn, job)
    with pytest.raises(LeaseLost, match=f"this worker does not hold job {job.id} any more"):
        await leave(completion, meanwhile=lose_it)
    assert not completion.completed
    assert (notes_in(dsn), await state(store, job)) == ([], "running")
    await leave(completing(dsn, again[0]), 2)
    assert (notes_in(dsn), await state(store, job)) == ([2], "succeeded")


async def test_a_job_that_was_taken_back_and_waits_is_lost_too(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    with pytest.raises(LeaseLost):
        await leave(completing(dsn, job), meanwhile=lambda _: take_back(store, job))
    assert (notes_in(dsn), await state(store, job)) == ([], "ready")


async def test_who_cancels_or_renews_is_not_held_up_by_the_block(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    async def others(_: object) -> None:
        async with Timeout(5):
            assert await store.jobs.cancel(job.id) is State.RUNNING
            assert await store.work.renew(job.worker, LEASE) is not None

    await leave(completing(dsn, job), meanwhile=others)
    assert (notes_in(dsn), await state(store, job)) == ([1], "succeeded")


async def test_a_connection_that_is_lost_in_the_block_leaves_neither(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    async def lose(tx: psycopg.Connection[Any]) -> None:
        end_process(dsn, tx.info.backend_pid)

    completion = completing(dsn, job)
    with pytest.raises(StoreUnavailable, match="nothing was done") as lost:
        await leave(completion, meanwhile=lose)
    assert not isinstance(lost.value, OutcomeUnknown)
    assert not completion.completed
    assert (notes_in(dsn), await state(store, job)) == ([], "running")


def url(proxy: Proxy) -> str:
    return f"postgresql:///?{urlencode(conninfo_to_dict(proxy.dsn))}"


LOST_COMMITS = {
    Network.LOSE_COMMIT: False,
    Network.LOSE_ANSWER_TO_COMMIT: True,
    Network.SWALLOW_ANSWER_TO_COMMIT: True,
}


@pytest.mark.parametrize("network", LOST_COMMITS, ids=lambda network: network.name.lower())
async def test_an_answer_to_a_commit_that_is_lost_is_found(
    store: SqlStore, job: Claimed, proxy: Proxy, *, dsn: str, leave: Leave, network: Network
) -> None:
    async def lose(_: object) -> None:
        proxy.network = network

    completion = completing(url(proxy), job, lease=SHORT)
    done = LOST_COMMITS[network]
    if done:
        await leave(completion, meanwhile=lose)
    else:
        with pytest.raises(StoreUnavailable, match="nothing was done"):
            await leave(completion, meanwhile=lose)
    assert completion.completed is done
    assert (notes_in(dsn), await state(store, job)) == (
        ([1], "succeeded") if done else ([], "running")
    )


async def test_a_database_that_cannot_be_asked_any_more_is_an_unknown_outcome(
    job: Claimed, proxy: Proxy, leave: Leave
) -> None:
    async def cut_who_asks_again() -> None:
        await proxy.until_connected(2)
        proxy.network = Network.CUT

    async def lose(_: object) -> None:
        proxy.network = Network.LOSE_ANSWER_TO_COMMIT

    async with asyncio.TaskGroup() as group:
        group.create_task(cut_who_asks_again())
        completion = completing(url(proxy), job, lease=SHORT)
        with pytest.raises(OutcomeUnknown, match=f"while job {job.id} was completed"):
            await leave(completion, meanwhile=lose)
    assert not completion.completed


async def test_a_commit_that_the_server_refuses_leaves_neither(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    with psycopg.connect(dsn) as other:
        other.execute("alter table note add unique (text) deferrable initially deferred")
        other.execute("insert into note values (7, '')")
    completion = completing(dsn, job)
    with pytest.raises(psycopg.errors.UniqueViolation):
        await leave(completion)
    assert not completion.completed
    assert (notes_in(dsn), await state(store, job)) == ([7], "running")


async def test_a_database_that_is_away_is_said_to_be(
    job: Claimed, proxy: Proxy, leave: Leave
) -> None:
    proxy.network = Network.CUT
    with pytest.raises(StoreUnavailable, match="nothing was done"):
        await leave(completing(url(proxy), job))


async def test_only_the_block_ends_its_transaction(store: SqlStore, job: Claimed, dsn: str) -> None:
    completion = completing(dsn, job)
    async with completion as tx:
        for end in (tx.commit, tx.rollback):
            with pytest.raises(WrongState, match="ends with its block"):
                await end()
        async with tx.transaction():
            await tx.execute("insert into note values (7, '')")
            roll_back()
        await tx.execute("insert into note values (8, '')")
    assert (notes_in(dsn), await state(store, job)) == ([8], "succeeded")


def roll_back() -> None:
    raise psycopg.Rollback


async def test_the_task_has_the_types_of_its_driver_and_a_client_that_vanishes_holds_no_locks(
    job: Claimed, dsn: str
) -> None:
    with completing(dsn, job) as tx:
        found = tx.execute(
            "select '{\"a\": 1}'::jsonb, current_setting('idle_in_transaction_session_timeout')"
        ).fetchone()
        assert found == ({"a": 1}, "15s")
        assert tx.info.get_parameters()["tcp_user_timeout"] == "7500"


async def test_a_day_that_nobody_has_made_is_made(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    days = "select relid::text from pg_partition_tree('duly.history') where isleaf"
    with psycopg.connect(dsn) as other:
        for (day,) in other.execute(days).fetchall():
            other.execute(SQL("drop table {}").format(Identifier(*day.split("."))))
    await leave(completing(dsn, job))
    assert (notes_in(dsn), await state(store, job)) == ([1], "succeeded")
