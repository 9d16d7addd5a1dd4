"""Enqueue in the caller's own transaction, through every driver that callers have."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from duly.errors import InvalidValue, KeyTaken, PayloadError, SchemaMismatch
from duly.model.job import JobRequest, StoredJob
from duly.model.payload import Json, encode
from duly.model.states import State
from duly.store.caller_connection import aenqueue_on, enqueue_on
from duly.store.connect import connect
from duly.store.postgres.notify import EVERYTHING
from duly.store.store import SqlStore
from tests.factories import call, distinct_call
from tests.infrastructure.cluster import Cluster
from tests.infrastructure.postgres import GivenServer
from tests.store import homes
from tests.store.callers import (
    POSTGRES,
    POSTGRES_ALONE,
    SQLITE,
    SQLITE_ALONE,
    Caller,
    Calling,
)
from tests.store.homes import Home, Models
from tests.store.postgres.notes import is_waiting_for_a_lock

LATER = timedelta(hours=1)
# Whatever a driver could take for the place of a value, the end of a string or an escape.
TRICKY = encode({"text": "100% %s %(batch)s :batch :now $1 ? ' \" \\ \\u0041 ::jsonb ✓ 𝄞"})
NUL = Json('"\\u0000"')
# What a job has from its call as it is.
KEPT = [name for name in JobRequest.__dataclass_fields__ if name in StoredJob.__dataclass_fields__]


def drivers(
    usual: Collection[str] | None = None, **callings: dict[str, Calling]
) -> pytest.MarkDecorator:
    """A parameter for each; the caller's database is the one under which it is named.

    If there are ``usual`` ones, the others are only tried where there is time.
    """
    again = pytest.mark.thorough("repeats what is said through another driver")
    return pytest.mark.parametrize(
        ("database", "calling"),
        [
            pytest.param(
                database,
                calling,
                id=f"{name} on {database}",
                marks=[] if usual is None or name in usual else [again],
            )
            for database, those in callings.items()
            for name, calling in those.items()
        ],
    )


# Each kind of connection once.
USUAL = {"psycopg", "asyncpg", "SQLAlchemy Session", "Django", "sqlite3"}

everybody = drivers(postgres=POSTGRES, sqlite=SQLITE)
usually = drivers(USUAL, postgres=POSTGRES, sqlite=SQLITE)
everybody_alone = drivers(postgres=POSTGRES_ALONE, sqlite=SQLITE_ALONE)


@pytest.fixture(scope="module")
def models(
    pg_cluster: Cluster | GivenServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Models]:
    with homes.models(pg_cluster.dsn, tmp_path_factory.mktemp("model")) as made:
        yield made


@pytest.fixture
def home(database: str, models: Models, tmp_path: Path) -> Iterator[Home]:
    """A database of the test's own, with tables."""
    with models.on_postgres() if database == "postgres" else models.on_sqlite(tmp_path) as made:
        yield made


@pytest.fixture
def empty_home(database: str, pg_dsn: str, tmp_path: Path) -> Home:
    url = pg_dsn if database == "postgres" else f"sqlite:///{tmp_path / 'empty.db'}"
    return Home(url, "select 17 as id")


@pytest.fixture
async def store(home: Home) -> AsyncIterator[SqlStore]:
    made = connect(home.url)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def caller(store: SqlStore, home: Home, calling: Calling) -> AsyncIterator[Caller]:
    async with calling(home) as one:
        yield one


@everybody
async def test_jobs_and_keys_vanish_with_the_callers_transaction(
    caller: Caller, store: SqlStore
) -> None:
    numbers = await caller.enqueue(call(), call(key="invoice"), call())
    assert await caller.seen() == sorted(numbers)
    await caller.rollback()
    assert await store.jobs.page() == []
    [number] = await store.jobs.enqueue([call(key="invoice", if_exists="error")])
    assert [job.id for job in await store.jobs.page()] == [number]


@everybody
async def test_a_job_is_there_for_the_caller_at_once_and_for_others_after_the_commit(
    caller: Caller, store: SqlStore
) -> None:
    asked = replace(distinct_call(LATER), args=TRICKY)
    [number] = await caller.enqueue(asked)
    assert await caller.seen() == [number]
    assert await store.jobs.page() == []
    await caller.commit()
    job = await store.jobs.get(number)
    assert {name: getattr(job, name) for name in KEPT} == {
        name: getattr(asked, name) for name in KEPT
    }
    assert job.state is State.SCHEDULED
    assert job.ready_at - job.created_at == LATER
    assert job.deadline == job.ready_at + timedelta(minutes=23)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@drivers(USUAL, postgres=POSTGRES)
async def test_the_commit_notifies_other_processes_and_a_rollback_does_not(
    caller: Caller, store: SqlStore, home: Home, commits: bool
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    store.listen(heard.put_nowait)
    while not store.is_listening:
        assert await asyncio.wait_for(heard.get(), 10) == EVERYTHING
    queue = f"q{id(store)}"  # a topic is sent again after ten milliseconds
    await caller.enqueue(call(queue=queue), call(queue=queue, key="a"))
    with psycopg.connect(home.url, autocommit=True) as other:
        other.execute("notify duly, 'before'")
        await (caller.commit() if commits else caller.rollback())
        other.execute("notify duly, 'after'")
    expected = ["before", *([f"ready:{queue}"] if commits else []), "after"]
    assert [await asyncio.wait_for(heard.get(), 10) for _ in expected] == expected


@usually
async def test_a_key_is_replaced_kept_or_refused(caller: Caller, store: SqlStore) -> None:
    first = call(key="invoice", run_after=LATER)
    [number] = await caller.enqueue(first)
    assert await caller.enqueue(replace(first, args=encode({"moved": 1}))) == [number]
    kept = replace(first, args=encode({"moved": 2}), if_exists="keep")
    assert await caller.enqueue(kept) == [number]
    with pytest.raises(KeyTaken, match=f'key "invoice" of task "work" is held by job {number}'):
        await caller.enqueue(replace(first, if_exists="error"))
    assert await caller.seen() == [number]
    await caller.commit()
    assert [(job.id, job.args) for job in await store.jobs.page()] == [(number, '{"moved":1}')]


@usually
async def test_a_batch_with_a_key_that_is_taken_leaves_nothing_behind(
    caller: Caller, store: SqlStore
) -> None:
    await store.jobs.enqueue([call(key="taken")])
    [before] = await caller.enqueue(call())
    with pytest.raises(KeyTaken):
        await caller.enqueue(call(), call(key="free"), call(key="taken", if_exists="error"))
    [after] = await caller.enqueue(call(key="free", if_exists="error"))
    await caller.commit()
    assert {job.id for job in await store.jobs.page() if job.key != "taken"} == {before, after}


@usually
async def test_two_thousand_jobs_are_one_call(caller: Caller, store: SqlStore) -> None:
    numbers = await caller.enqueue(*(call(title=f"the {place}th") for place in range(2_000)))
    await caller.commit()
    jobs = {job.id: job.title for job in await store.jobs.page(limit=3_000)}
    assert [jobs[number] for number in numbers] == [f"the {place}th" for place in range(2_000)]
    assert len(jobs) == 2_000


@usually
async def test_after_a_refusal_at_the_door_the_transaction_goes_on(
    caller: Caller, store: SqlStore
) -> None:
    [before] = await caller.enqueue(call())
    with pytest.raises(PayloadError, match="NUL"):
        await caller.enqueue(call(), call(args=NUL))
    [after] = await caller.enqueue(call())
    await caller.commit()
    assert [job.id for job in await store.jobs.page()] == [before, after]


@usually
async def test_a_database_without_tables_is_named_as_such_and_the_transaction_goes_on(
    empty_home: Home, calling: Calling
) -> None:
    async with calling(empty_home) as caller:
        with pytest.raises(SchemaMismatch, match="the connection's database has no duly tables; "):
            await caller.enqueue(call(key="invoice"), call())
        assert await caller.seen() == [17]
        await caller.rollback()


@pytest.mark.parametrize("database", ["sqlite"])
async def test_numbers_that_a_rollback_gave_back_are_not_used_twice(
    home: Home, store: SqlStore
) -> None:
    connection = sqlite3.connect(home.path)
    undone = enqueue_on(connection, [call(), call()])
    connection.rollback()
    ours = await store.jobs.enqueue([call(), call()])
    theirs = enqueue_on(connection, [call(), call()])
    connection.commit()
    connection.close()
    assert undone == ours  # given back, and given to the next
    assert {job.id for job in await store.jobs.page()} == {*ours, *theirs}
    assert len({*ours, *theirs}) == 4


@everybody_alone
async def test_outside_a_transaction_a_call_is_a_transaction_of_its_own(
    caller: Caller, store: SqlStore, home: Home
) -> None:
    [plain] = await caller.enqueue(call())
    [keyed] = await caller.enqueue(call(key="invoice"))
    assert home.is_quiet()
    assert [job.id for job in await store.jobs.page()] == [plain, keyed]


@everybody_alone
async def test_outside_a_transaction_a_batch_is_all_or_nothing(
    caller: Caller, store: SqlStore, home: Home
) -> None:
    [taken] = await caller.enqueue(call(key="taken"))
    with pytest.raises(KeyTaken):
        await caller.enqueue(call(), call(key="free"), call(key="taken", if_exists="error"))
    assert home.is_quiet()
    assert [job.id for job in await store.jobs.page()] == [taken]
    await store.jobs.enqueue([call(key="free", if_exists="error")])


@drivers(postgres={name: POSTGRES_ALONE[name] for name in ("psycopg async", "asyncpg")})
async def test_a_call_that_is_cancelled_leaves_no_transaction_open(
    caller: Caller, store: SqlStore, home: Home
) -> None:
    with psycopg.connect(home.url) as other:
        enqueue_on(other, [call(key="invoice")])
        waiting = asyncio.create_task(caller.enqueue(call(key="invoice")))
        await is_waiting_for_a_lock(home.url)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        other.rollback()
    assert home.is_quiet()
    assert await store.jobs.page() == []


def test_what_is_refused_at_the_door_does_not_touch_the_connection(pg_dsn: str) -> None:
    with psycopg.connect(pg_dsn) as connection:
        with pytest.raises(PayloadError):
            enqueue_on(connection, [call(args=NUL)])
        assert enqueue_on(connection, []) == []
        assert connection.info.transaction_status.name == "IDLE"


async def test_a_connection_that_is_awaited_is_told_from_one_that_is_not(pg_dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        with pytest.raises(InvalidValue) as refused:
            enqueue_on(connection, [call(), call()])
        assert str(refused.value) == (
            "this is an AsyncConnection: await duly.aenqueue_many(…, connection=…)"
        )
    engine = create_async_engine("postgresql+asyncpg://")
    with pytest.raises(InvalidValue) as refused:
        enqueue_on(AsyncSession(engine), [call(task="confirm")])
    assert str(refused.value) == (
        "this is an AsyncSession: await confirm.using(connection=…).aenqueue(…)"
    )
    with pytest.raises(InvalidValue, match=r"^this is a Session of sqlalchemy, .*: enqueue\(…\)"):
        await aenqueue_on(Session(), [call()])


def test_what_is_no_connection_is_told_what_is() -> None:
    with pytest.raises(InvalidValue, match=r"^a dict of builtins .*psycopg2, asyncpg or sqlite3"):
        enqueue_on({}, [call()])
    with pytest.raises(InvalidValue, match=r"^an Engine of sqlalchemy.* Connection or Session of"):
        enqueue_on(sqlalchemy.create_engine("sqlite://"), [call()])


def test_other_databases_are_refused() -> None:
    class Connection:
        __module__ = "sqlalchemy.engine.base"
        dialect = SimpleNamespace(name="mysql", paramstyle="format")

    with pytest.raises(InvalidValue, match=r"^a Connection of sqlalchemy to mysql"):
        enqueue_on(Connection(), [call()])


def test_no_driver_is_imported_for_the_sake_of_recognising_it() -> None:
    program = """if True:
        import sys
        import duly.store.caller_connection
        print(sorted({"psycopg", "psycopg2", "asyncpg", "sqlalchemy", "django", "sqlite3"}
                     & sys.modules.keys()))
    """
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert said == "[]\n"
