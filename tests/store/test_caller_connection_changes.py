"""Whatever else is written in the caller's own transaction, through every driver that callers have.

The drivers, and the databases, are those of ``test_caller_connection``.
"""

# ruff: noqa: F811 - fixtures are imported, and then asked for by name

from dataclasses import replace
from datetime import timedelta
from functools import partial

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from duly.app.schedules import added
from duly.clock import now, sleep
from duly.errors import InvalidValue, NotFound, ScheduleExists, SchemaMismatch, StoreUnavailable
from duly.model.fire import Outcome
from duly.model.policies import Missed
from duly.model.schedule import StoredSchedule
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.policy.firing import decide
from duly.store.caller_connection import Verb, awrite_on, write_on
from duly.store.caller_connection.drivers import DIALECTS
from duly.store.postgres.database import POSTGRES as OUR_POSTGRES
from duly.store.sqlite.database import SQLITE as OUR_SQLITE
from duly.store.store import SqlStore
from tests.factories import call, distinct_plan, plan
from tests.store import callers
from tests.store.callers import Caller, Calling
from tests.store.errands import (
    WHO,
    add,
    cancel,
    edit,
    every_2h,
    pause,
    remove,
    resume,
    run,
    skip,
    spoiled,
)
from tests.store.homes import Home
from tests.store.test_caller_connection import (  # noqa: F401
    LATER,
    TRICKY,
    USUAL,
    caller,
    drivers,
    empty_home,
    everybody_alone,
    home,
    models,
    store,
)

TRICKY_NAME = "100% %s %(name)s :name :now $1 ? ' \" \\ ✓ 𝄞"

# test_caller_connection has a test for every kind of connection; these are the same for all.
everybody = drivers(
    USUAL - {"Django", "SQLAlchemy Session"},
    postgres={**callers.POSTGRES, **callers.POSTGRES_STYLES},
    sqlite={**callers.SQLITE, **callers.SQLITE_STYLES},
)


@everybody
async def test_a_job_is_cancelled_with_the_callers_transaction(
    caller: Caller, store: SqlStore
) -> None:
    [number] = await store.jobs.enqueue([call(key=TRICKY_NAME, run_after=LATER)])
    assert await caller.write(partial(cancel, key=TRICKY_NAME), decides=False)
    assert await caller.seen() == []
    assert [job.id for job in await store.jobs.page()] == [number]
    await caller.rollback()
    assert (await store.jobs.get(number)).state is State.SCHEDULED


@everybody
async def test_a_job_stays_cancelled_after_the_commit_and_its_key_is_free(
    caller: Caller, store: SqlStore
) -> None:
    follower = Terms(on_cancelled=Callback(task="tidy", queue="default", argument="job"))
    [number] = await store.jobs.enqueue([call(key="invoice", run_after=LATER, terms=follower)])
    assert await caller.write(partial(cancel, key="invoice"), decides=False)
    assert not await caller.write(partial(cancel, key="invoice"), decides=False)
    await caller.commit()
    assert (await store.jobs.get(number)).state is State.CANCELLED
    assert [(job.task, job.args) for job in await store.jobs.page()] == [
        ("tidy", f'{{"job":{number}}}')
    ]
    await store.jobs.enqueue([call(key="invoice", if_exists="error")])


@everybody
async def test_a_schedule_is_there_for_others_after_the_commit_with_everything_it_has(
    caller: Caller, store: SqlStore
) -> None:
    wanted = replace(distinct_plan(now() + timedelta(days=900)), name=TRICKY_NAME, args=TRICKY)
    made = await caller.write(partial(add, plan=wanted), decides=False)
    assert await store.schedules.page() == []
    await caller.commit()
    assert await store.schedules.get(TRICKY_NAME) == made
    assert made.plan == wanted
    assert made.next_at is not None


@everybody
async def test_a_schedule_that_was_not_committed_was_never_there(
    caller: Caller, store: SqlStore
) -> None:
    await caller.write(partial(add, plan=plan("report")), decides=False)
    await caller.rollback()
    assert await store.schedules.page() == []
    await store.schedules.add([plan("report")])


@everybody
async def test_what_was_added_in_a_callers_transaction_fires_like_any_other(
    caller: Caller, store: SqlStore
) -> None:
    await caller.write(partial(add, plan=plan("report", "every 1s")), decides=False)
    [[early]] = [await caller.enqueue(call("early"))]
    await caller.commit()
    await is_due(store, "report")
    fired = await store.ledger.fire(decide, limit=10, trust=lambda _: True)
    assert (fired.schedules, fired.jobs, fired.faults) == (1, 1, [])
    [fire] = await store.ledger.fires("report")
    jobs = {job.id: job.task for job in await store.jobs.page()}
    assert fire.outcome is Outcome.QUEUED
    assert jobs == {early: "early", fire.job_id: "work"}


@everybody
async def test_a_name_that_is_taken_is_refused_kept_or_replaced(
    caller: Caller, store: SqlStore
) -> None:
    await store.schedules.add([plan("report", "every 1h", title="before")])
    other = partial(added, plan=plan("report", "every 3h", title="after"))
    with pytest.raises(ScheduleExists, match='"report": exists already'):
        await caller.write(partial(other, if_exists="error"), decides=False)
    kept = await caller.write(partial(other, if_exists="keep"), decides=False)
    assert (kept.rule, kept.title) == ("every 1h", "before")
    replaced = await caller.write(partial(other, if_exists="replace"))
    assert (replaced.rule, replaced.title) == ("every 3h", "after")
    assert (await store.schedules.get("report")).plan.rule == "every 1h"
    await caller.commit()
    assert (await store.schedules.get("report")).plan.rule == "every 3h"


@everybody
async def test_a_schedule_is_edited_paused_and_run_with_the_callers_transaction(
    caller: Caller, store: SqlStore
) -> None:
    before = await added_to(store, "every 1h", overlap="allow")
    await steer(caller)
    assert await store.schedules.get("report") == before
    await caller.commit()
    after = await store.schedules.get("report")
    assert after.plan == replace(before.plan, rule="every 2h")
    assert after.pause is not None
    assert after.pause.note == TRICKY_NAME
    fires = [(fire.outcome, fire.job_id is None) for fire in await store.ledger.fires("report")]
    assert sorted(fires) == [(Outcome.QUEUED, False), *[(Outcome.SKIPPED, True)] * 2]
    said = [(who, what) for _, who, what in await store.schedules.changes("report")]
    assert set(said) >= {(WHO, "resumed"), (WHO, "run by hand"), (WHO, f"paused: {TRICKY_NAME}")}


@everybody
async def test_what_was_done_to_a_schedule_is_undone_with_the_callers_transaction(
    caller: Caller, store: SqlStore
) -> None:
    before = await added_to(store, "every 1h", overlap="allow")
    await steer(caller)
    await caller.rollback()
    assert await store.schedules.get("report") == before
    assert await store.ledger.fires("report") == []
    assert await store.schedules.changes("report") == []
    assert await store.jobs.page() == []


async def steer(caller: Caller) -> None:
    assert (await caller.write(partial(pause, name="report"))).pause is not None
    assert (await caller.write(partial(resume, name="report"))).pause is None
    assert (await caller.write(partial(edit, name="report", change=every_2h))).next_at is not None
    assert await caller.write(partial(skip, name="report")) == 2
    assert (await caller.write(partial(run, name="report"))).outcome is Outcome.QUEUED
    assert (await caller.write(partial(pause, name="report", note=TRICKY_NAME))).pause is not None


@everybody
async def test_a_schedule_is_removed_with_the_callers_transaction(
    caller: Caller, store: SqlStore
) -> None:
    before = await added_to(store, "every 1h")
    await caller.write(partial(remove, name="report"))
    with pytest.raises(NotFound, match='there is no schedule "report"'):
        await caller.write(partial(remove, name="report"))
    assert await store.schedules.get("report") == before
    await caller.commit()
    assert await store.schedules.page() == []


@everybody
async def test_what_is_refused_halfway_leaves_nothing_behind_and_the_transaction_goes_on(
    caller: Caller, store: SqlStore
) -> None:
    before = await added_to(store, "every 1s")
    [first] = await caller.enqueue(call())
    await is_due(store, "report")
    with pytest.raises(InvalidValue, match="report is spoiled"):
        await caller.write(partial(edit, name="report", change=spoiled))
    [second] = await caller.enqueue(call())
    await caller.commit()
    assert [job.id for job in await store.jobs.page()] == [first, second]
    assert await store.ledger.fires("report") == []
    assert await store.schedules.get("report") == before


@everybody
async def test_what_was_due_before_an_edit_is_fired_with_the_callers_transaction(
    caller: Caller, store: SqlStore
) -> None:
    await added_to(store, "every 1s")
    await is_due(store, "report")
    edited = await caller.write(partial(edit, name="report", change=every_2h))
    assert len(await caller.seen()) == 1
    assert await store.ledger.fires("report") == []
    await caller.commit()
    [fire] = await store.ledger.fires("report")
    assert [job.fire_id for job in await store.jobs.page()] == [fire.id]
    assert edited.plan.rule == "every 2h"


@drivers(sqlite=callers.SQLITE)
async def test_more_is_written_than_there_are_numbers_in_a_block(
    caller: Caller, store: SqlStore
) -> None:
    all_of_them = Missed("all", at_most=1_000)
    made = await added_to(store, "every 1s", overlap="allow", missed=all_of_them)
    await store.schedules.rewind("report", to=made.created_at - timedelta(seconds=700))
    await caller.write(partial(edit, name="report", change=every_2h))
    await caller.commit()
    fires = await store.ledger.fires("report", limit=2_000)
    jobs = await store.jobs.page(limit=2_000)
    assert 699 <= len(fires) <= 720
    assert {job.fire_id for job in jobs} == {fire.id for fire in fires}


@everybody_alone
async def test_outside_a_transaction_a_change_is_a_transaction_of_its_own(
    caller: Caller, store: SqlStore, home: Home
) -> None:
    await store.jobs.enqueue([call(key="invoice", run_after=LATER)])
    await caller.write(partial(add, plan=plan("report", "every 1s")), decides=False)
    assert await caller.write(partial(cancel, key="invoice"), decides=False)
    assert home.is_quiet()
    assert await store.jobs.page() == []
    await is_due(store, "report")
    with pytest.raises(InvalidValue, match="report is spoiled"):
        await caller.write(partial(edit, name="report", change=spoiled))
    assert home.is_quiet()
    assert await store.ledger.fires("report") == []
    await caller.write(partial(edit, name="report", change=every_2h))
    assert home.is_quiet()
    assert len(await store.ledger.fires("report")) == 1
    assert (await store.schedules.get("report")).plan.rule == "every 2h"


@everybody
async def test_a_database_without_tables_is_named_and_the_transaction_goes_on(
    empty_home: Home, calling: Calling
) -> None:
    async with calling(empty_home) as one:
        with pytest.raises(SchemaMismatch, match="the connection's database has no duly tables; "):
            await one.write(partial(add, plan=plan("report")), decides=False)
        assert await one.seen() == [17]
        await one.rollback()


@drivers(postgres=callers.POSTGRES)
async def test_a_day_that_has_no_partition_is_not_made_by_a_caller(
    caller: Caller, store: SqlStore, home: Home
) -> None:
    [number] = await store.jobs.enqueue([call(key="invoice", run_after=LATER)])
    with psycopg.connect(home.url, autocommit=True) as operator:
        days = "select inhrelid::regclass::text from pg_inherits where inhparent = %s::regclass"
        for (day,) in operator.execute(days, ("duly.history",)).fetchall():
            operator.execute(f"drop table {day}".encode())
    with pytest.raises(StoreUnavailable, match=r"no partition .* start duly up"):
        await caller.write(partial(cancel, key="invoice"), decides=False)
    await caller.rollback()
    assert (await store.jobs.get(number)).state is State.SCHEDULED


@pytest.mark.parametrize("database", ["postgres"])
async def test_a_view_that_stands_still_is_not_decided_by(home: Home, store: SqlStore) -> None:
    before = await added_to(store, "every 1h")
    await store.jobs.enqueue([call(key="invoice", run_after=LATER)])
    with psycopg.connect(home.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(InvalidValue) as refused:
            write_on(connection, partial(pause, name="report"), Verb("duly.schedules", "pause"))
        assert str(refused.value) == (
            "the transaction is repeatable read, but a change of a schedule must see what others "
            "commit in the meantime: use read committed, or leave connection= out"
        )
        plain = Verb("work", "cancel", decides=False)
        assert write_on(connection, partial(cancel, key="invoice"), plain)
        write_on(connection, partial(add, plan=plan("other")), plain)
        connection.commit()
    assert await store.schedules.get("report") == before
    assert await store.jobs.page() == []
    assert (await store.schedules.get("other")).plan.name == "other"


@pytest.mark.parametrize("database", ["postgres"])
async def test_a_hundred_cancellations_in_one_transaction_make_no_savepoints(
    home: Home, store: SqlStore
) -> None:
    """More than 64 that write make everybody's reads slower, for as long as it is open."""
    await store.jobs.enqueue([call(key=f"key {n}", run_after=LATER) for n in range(100)])
    plain = Verb("work", "cancel", decides=False)
    with psycopg.connect(home.url) as connection:
        for n in range(100):
            assert write_on(connection, partial(cancel, key=f"key {n}"), plain)
        [(ids,)] = connection.execute("select pg_current_xact_id()::text").fetchall()
        written = connection.execute("select distinct xmin::text from duly.history").fetchall()
    assert written == [(ids,)]


async def test_a_connection_that_is_awaited_is_told_the_twin_of_what_was_said(pg_dsn: str) -> None:
    send = Verb("send", "cancel", "key=…, connection=…", decides=False)
    engine = create_async_engine("postgresql+asyncpg://")
    with pytest.raises(InvalidValue) as refused:
        write_on(AsyncSession(engine), partial(cancel, key="invoice"), send)
    assert str(refused.value) == (
        "this is an AsyncSession: await send.acancel(key=…, connection=…)"
    )
    async with await psycopg.AsyncConnection.connect(pg_dsn) as connection:
        with pytest.raises(InvalidValue, match=r"^this is an AsyncConnection: await duly\.awrite"):
            write_on(connection, partial(cancel, key="invoice"), callers.verb(True))
    with pytest.raises(InvalidValue) as refused:
        await awrite_on(Session(), partial(cancel, key="invoice"), send)
    assert str(refused.value) == (
        "this is a Session of sqlalchemy, which cannot be awaited: "
        "send.cancel(key=…, connection=…) without await"
    )
    with pytest.raises(InvalidValue, match=r"^a dict of builtins is not a connection that duly"):
        write_on({}, partial(cancel, key="invoice"), send)


def test_callers_are_spoken_to_as_our_own_databases_are() -> None:
    assert {"postgresql": OUR_POSTGRES, "sqlite": OUR_SQLITE} == DIALECTS


async def added_to(store: SqlStore, rule: str, **policies: object) -> StoredSchedule:
    [made] = await store.schedules.add([plan("report", rule, **policies)])
    return made


async def is_due(store: SqlStore, name: str) -> None:
    while not (await store.ledger.foresee(name, decide)).entries:
        await sleep(0.02)
