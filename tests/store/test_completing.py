"""A task's own transaction: what it writes and the end of its job are there together, or neither.

The ``note`` table is what the task writes. ``test_completing_postgres.py`` runs all of it again.
"""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from datetime import timedelta
from typing import NoReturn

import pytest

from duly import Duly
from duly.clock import Timeout, now, sleep
from duly.errors import InvalidValue, LeaseLost, WrongState
from duly.model.job import Claimed
from duly.model.payload import encode
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.policy.firing import decide
from duly.store.store import SqlStore
from duly.store.task_transaction import open_completion
from tests.factories import call, plan
from tests.store.completing import (
    LEASE,
    Leave,
    claimed,
    completing,
    given_to_another,
    notes_in,
    state,
    take_back,
)


async def test_what_the_task_writes_and_the_end_of_its_job_are_one(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    async def nobody_sees_it_yet(_: object) -> None:
        assert (notes_in(dsn), await state(store, job)) == ([], "running")

    completion = completing(dsn, job)
    await leave(completion, meanwhile=nobody_sees_it_yet)
    ended = await store.jobs.get(job.id)
    assert completion.completed
    assert (notes_in(dsn), ended.state, ended.result) == ([1], State.SUCCEEDED, '{"number":1}')


async def test_an_error_in_the_block_leaves_neither_and_the_job_may_try_again(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    async def fail(_: object) -> NoReturn:
        raise ZeroDivisionError

    completion = completing(dsn, job)
    with pytest.raises(ZeroDivisionError):
        await leave(completion, meanwhile=fail)
    assert (notes_in(dsn), await state(store, job)) == ([], "running")
    await leave(completion, 2)
    assert completion.completed
    assert (notes_in(dsn), await state(store, job)) == ([2], "succeeded")


async def test_a_job_is_completed_once(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    completion = completing(dsn, job)
    await leave(completion)
    with pytest.raises(WrongState, match=r"was completed by the previous transaction\(\)"):
        await leave(completion, 2)
    with pytest.raises(WrongState, match=f"job {job.id} was completed already"):
        await leave(completing(dsn, job), 3)
    assert notes_in(dsn) == [1]
    assert await state(store, job) == "succeeded"


async def test_blocks_do_not_go_into_each_other(job: Claimed, dsn: str) -> None:
    completion = completing(dsn, job)
    with pytest.raises(WrongState, match="leave its block before the next"):
        async with completion, completion:
            pass


async def test_a_worker_that_lost_the_job_cannot_commit(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    again = await given_to_another(store, job)
    completion = completing(dsn, job)
    with pytest.raises(LeaseLost, match=f"this worker does not hold job {job.id} any more"):
        await leave(completion)
    assert not completion.completed
    assert (notes_in(dsn), await state(store, job)) == ([], "running")
    await leave(completing(dsn, again), 2)
    assert (notes_in(dsn), await state(store, job)) == ([2], "succeeded")


async def test_a_job_that_was_taken_back_and_waits_is_lost_too(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    await take_back(store, job)
    with pytest.raises(LeaseLost):
        await leave(completing(dsn, job))
    assert (notes_in(dsn), await state(store, job)) == ([], "ready")


async def test_callbacks_and_fixed_delays_go_on_in_the_same_transaction(
    store: SqlStore, dsn: str, leave: Leave
) -> None:
    terms = Terms(on_success=Callback(task="thanks", queue="others"))
    await store.schedules.add([plan(rule="spaced 10m", terms=terms)])
    await store.ledger.fire(decide, limit=10, trust=lambda _: True)
    job = await claimed(store)

    async def nothing_goes_on_yet(_: object) -> None:
        assert [one.id for one in await store.jobs.page()] == [job.id]
        assert (await store.schedules.get("report")).awaiting == job.id

    before = now()
    await leave(completing(dsn, job), meanwhile=nothing_goes_on_yet)
    [thanks] = await store.jobs.page()
    assert (thanks.task, thanks.queue, thanks.args) == (
        "thanks",
        "others",
        f'{{"job_id":{job.id}}}',
    )
    following = await store.schedules.get("report")
    assert following.awaiting is None
    assert following.next_at is not None
    assert following.next_at - before >= timedelta(minutes=10)


async def test_whoever_waits_for_what_follows_is_nudged(
    store: SqlStore, dsn: str, leave: Leave
) -> None:
    terms = Terms(on_success=Callback(task="thanks"))
    await store.jobs.enqueue([call(terms=terms)])
    job = await claimed(store)
    heard = asyncio.Event()
    store.database.listen(lambda topic: heard.set() if topic == "ready:default" else None)
    async with Timeout(10):
        while not store.database.is_listening:
            await sleep(0.01)
    await leave(completing(dsn, job))
    await asyncio.wait_for(heard.wait(), 10)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_job_that_is_enqueued_on_its_connection_is_part_of_it(
    store: SqlStore, job: Claimed, dsn: str, *, fails: bool
) -> None:
    app = Duly(dsn)

    @app.task
    def following() -> None: ...

    def task() -> None:
        with completing(dsn, job) as tx:
            following.using(connection=tx).enqueue()
            if fails:
                raise ZeroDivisionError

    try:
        await asyncio.to_thread(task)
    except ZeroDivisionError:
        assert [one.task for one in await store.jobs.page()] == ["work"]
    else:
        assert [one.task for one in await store.jobs.page()] == ["following"]
    finally:
        await asyncio.to_thread(app.close)


async def test_a_transaction_that_was_ended_in_its_block_completes_nothing(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    completion = completing(dsn, job)
    with pytest.raises(WrongState, match="was ended inside its block"):
        await leave(completion, meanwhile=commits)
    assert not completion.completed
    assert await state(store, job) == "running"


async def commits(tx: sqlite3.Connection) -> None:
    done = tx.execute("commit")
    if asyncio.iscoroutine(done):
        await done


async def test_only_the_block_ends_its_transaction(store: SqlStore, job: Claimed, dsn: str) -> None:
    async with completing(dsn, job) as tx:
        for end in (tx.commit, tx.rollback):
            with pytest.raises(WrongState, match="ends with its block"):
                await end()
        await tx.execute("savepoint mine")
        await tx.execute("insert into note values (7, '')")
        await tx.execute("rollback to savepoint mine")
        await tx.execute("insert into note values (8, '')")
        found = await tx.execute("select id from note")
        assert (await found.fetchall(), await found.fetchone()) == ([(8,)], None)
    assert (notes_in(dsn), await state(store, job)) == ([8], "succeeded")


VICTIM = """
import sys
from datetime import timedelta
from duly.model.payload import encode
from duly.store.task_transaction import open_completion

completion = open_completion(
    sys.argv[1], settlement=lambda _: sys.exit(1), encode=encode, lease=timedelta(seconds=15)
)
with completion as tx:
    tx.execute("insert into note values (1, '')")
    tx.complete({"number": 1})
    print("written", flush=True)
    sys.stdin.read()
"""


async def test_a_worker_that_is_killed_in_the_block_leaves_neither(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    kill_in_the_block(dsn)
    assert (notes_in(dsn), await state(store, job)) == ([], "running")
    await leave(
        completing(dsn, job)
    )  # would wait for the lock on the note, if there still were one
    assert (notes_in(dsn), await state(store, job)) == ([1], "succeeded")


def kill_in_the_block(dsn: str) -> None:
    program = [sys.executable, "-c", VICTIM, dsn]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        assert victim.stdout
        assert victim.stdout.readline() == b"written\n"
        victim.send_signal(signal.SIGKILL)
        assert victim.wait() == -signal.SIGKILL


@pytest.mark.parametrize("url", [":memory:", "https://duly.example"])
def test_a_store_that_a_task_cannot_open_has_no_transaction(url: str) -> None:
    with pytest.raises(InvalidValue, match=r"needs a database that the task can open"):
        open_completion(
            url, settlement=lambda _: pytest.fail("was asked"), encode=encode, lease=LEASE
        )
