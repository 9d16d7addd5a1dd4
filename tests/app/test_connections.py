"""``connection=`` on whatever an app writes: part of the caller's transaction, or refused."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from duly.errors import InvalidValue, NotFound, ScheduleExists, SchemaMismatch
from duly.model.states import State
from duly.store.connect import place
from tests.app import shop

Connection: TypeAlias = sqlite3.Connection | psycopg.Connection[tuple[object, ...]]

pytestmark = pytest.mark.usefixtures("shop_is_open")


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    """To the shop's database, which has its tables."""
    shop.duly.schedules.list()
    made: Connection = psycopg.connect(url) if url.startswith("postgres") else sqlite3.connect(url)
    yield made
    made.close()


def test_a_reminder_is_called_off_with_the_order(connection: Connection) -> None:
    job = shop.add.using(key="order 7", run_after="3h").enqueue(7)
    assert shop.add.cancel(key="order 7", connection=connection)
    connection.rollback()
    assert job.refresh().state is State.SCHEDULED
    assert shop.add.using(connection=connection).cancel(key="order 7")
    assert not shop.add.cancel(key="order 7", connection=connection)
    connection.commit()
    assert job.refresh().state is State.CANCELLED


def test_a_job_and_its_end_may_be_in_one_transaction(connection: Connection) -> None:
    job = shop.add.using(connection=connection, key="order 8").enqueue(8)
    assert shop.add.cancel(key="order 8", connection=connection)
    connection.commit()
    assert job.refresh().state is State.CANCELLED


def test_a_schedule_comes_and_goes_with_the_customer(connection: Connection) -> None:
    schedules, call = shop.duly.schedules, shop.add.bind(7)
    made = schedules.add("every 1h", call, name="customer 7", connection=connection)
    assert (made.name, made.rule, made.owner) == ("customer 7", "every 1h", "api")
    with pytest.raises(NotFound):
        schedules.get("customer 7")
    connection.commit()
    assert schedules.get("customer 7") == made
    schedules.remove("customer 7", connection=connection)
    connection.rollback()
    assert schedules.get("customer 7") == made


def test_a_name_that_is_taken_is_refused_kept_or_replaced(connection: Connection) -> None:
    schedules, call = shop.duly.schedules, shop.add.bind(7)
    schedules.add("every 1h", call, name="customer 7")
    with pytest.raises(ScheduleExists):
        schedules.add("every 2h", call, name="customer 7", connection=connection)
    kept = schedules.add(
        "every 2h", call, name="customer 7", if_exists="keep", connection=connection
    )
    assert kept.rule == "every 1h"
    schedules.add("every 2h", call, name="customer 7", if_exists="replace", connection=connection)
    assert schedules.get("customer 7").rule == "every 1h"
    connection.commit()
    assert schedules.get("customer 7").rule == "every 2h"


def test_a_schedule_is_steered_in_the_callers_transaction(connection: Connection) -> None:
    schedules = shop.duly.schedules
    before = schedules.add("every 1h", shop.add.bind(7), name="customer 7")
    paused = schedules.pause("customer 7", until="2h", note="on holiday", connection=connection)
    assert paused.paused_until is not None
    assert not schedules.resume("customer 7", connection=connection).paused
    assert schedules.edit("customer 7", rule="every 3h", connection=connection).rule == "every 3h"
    assert len(schedules.skip_next("customer 7", count=2, connection=connection)) == 2
    assert schedules.run("customer 7", connection=connection).outcome == "queued"
    assert schedules.get("customer 7") == before
    connection.commit()
    assert schedules.get("customer 7").rule == "every 3h"
    assert len(schedules.history("customer 7")) == 3


def test_an_async_session_is_told_what_to_await() -> None:
    session = AsyncSession(create_async_engine("postgresql+asyncpg://"))
    schedules, call = shop.duly.schedules, shop.add.bind(7)
    with is_told("add.acancel(key=…"):
        shop.add.cancel(key="order 7", connection=session)
    with is_told("duly.schedules.aadd(…"):
        schedules.add("every 1h", call, connection=session)
    with is_told("duly.schedules.aedit(…"):
        schedules.edit("customer 7", late="run", connection=session)
    with is_told("duly.schedules.apause(…"):
        schedules.pause("customer 7", connection=session)
    with is_told("duly.schedules.aresume(…"):
        schedules.resume("customer 7", connection=session)
    with is_told("duly.schedules.aremove(…"):
        schedules.remove("customer 7", connection=session)
    with is_told("duly.schedules.askip_next(…"):
        schedules.skip_next("customer 7", connection=session)
    with is_told("duly.schedules.arun(…"):
        schedules.run("customer 7", connection=session)


@contextmanager
def is_told(twin: str) -> Iterator[None]:
    with pytest.raises(InvalidValue) as refused:
        yield
    assert str(refused.value) == f"this is an AsyncSession: await {twin}, connection=…)"


async def test_a_session_that_is_not_awaited_is_told_so() -> None:
    with pytest.raises(InvalidValue) as refused:
        await shop.add.acancel(key="order 7", connection=Session())
    assert str(refused.value) == (
        "this is a Session of sqlalchemy, which cannot be awaited: "
        "add.cancel(key=…, connection=…) without await"
    )
    with pytest.raises(InvalidValue, match=r": duly\.schedules\.remove\(…, connection=…\) without"):
        await shop.duly.schedules.aremove("customer 7", connection=Session())


def test_another_database_is_told_which_one_duly_uses(url: str) -> None:
    with Session(create_engine("sqlite://", poolclass=NullPool)) as session:
        with pytest.raises(SchemaMismatch) as refused:
            shop.add.cancel(key="order 7", connection=session)
        assert str(refused.value) == (
            f"the session's database has no duly tables; duly uses {place(url)}"
        )
        with pytest.raises(SchemaMismatch, match="the connection's database has no duly tables"):
            shop.duly.schedules.add("every 1h", shop.add.bind(7), connection=session.connection())
