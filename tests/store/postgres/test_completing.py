"""A task's own transaction: what it writes and the end of its job are there together, or neither.

The ``note`` table is what the task writes.
"""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from duly.clock import Timeout, now, sleep
from duly.errors import InvalidValue, LeaseLost, OutcomeUnknown, StoreUnavailable, WrongState
from duly.model.claimed import Claimed
from duly.model.outcome import Lost, Succeeded
from duly.model.payload import Json, encode
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.policy.firing import decide
from duly.policy.retry import NEVER
from duly.policy.verdict import Tried, judge
from duly.store.completing import open_completion
from duly.store.completing.completion import JobCompletion
from duly.store.connect import connect
from duly.store.migrate import migrate
from duly.store.store import SqlStore
from duly.store.values import Settlement, Wish
from tests.factories import call, plan, profile
from tests.infrastructure.proxy import Network, Proxy
from tests.store.postgres.notes import end_process, notes_in

LEASE = timedelta(seconds=15)
SHORT = timedelta(seconds=1.5)
Meanwhile: TypeAlias = Callable[[Any], Awaitable[object]]
Leave: TypeAlias = Callable[..., Awaitable[None]]


async def nothing(_: object) -> None:
    """Happens inside the block."""


async def by_awaiting(
    completion: JobCompletion, number: int = 1, meanwhile: Meanwhile = nothing
) -> None:
    async with completion as tx:
        await tx.execute("insert into note values (%s, '')", [number])
        tx.complete({"number": number})
        await meanwhile(tx)


async def by_blocking(
    completion: JobCompletion, number: int = 1, meanwhile: Meanwhile = nothing
) -> None:
    loop = asyncio.get_running_loop()

    def task() -> None:
        with completion as tx:
            tx.execute("insert into note values (%s, '')", [number])
            tx.complete({"number": number})
            asyncio.run_coroutine_threadsafe(awaited(meanwhile(tx)), loop).result(timeout=20)

    with ThreadPoolExecutor(1) as thread:
        await loop.run_in_executor(thread, task)


async def awaited(what: Awaitable[object]) -> None:
    await what


@pytest.fixture(params=[by_awaiting, by_blocking])
def leave(request: pytest.FixtureRequest) -> Leave:
    """Run a block that writes a note and completes its job."""
    chosen: Leave = request.param
    return chosen


@pytest.fixture
async def store(dsn: str, every_task_is_done: None) -> AsyncIterator[SqlStore]:
    store = connect(dsn)
    await store.open()
    await migrate(store.database)
    try:
        yield store
    finally:
        await store.close()


async def claimed(store: SqlStore) -> Claimed:
    worker = await store.work.register(profile(), lease=LEASE)
    [place] = await store.work.ready(["default"], ["work"])
    wish = Wish(worker=worker.id, queue="default", shelf=place.shelf, tasks=["work"], limit=1)
    [job] = (await store.work.claim(wish)).jobs
    return job


@pytest.fixture
async def job(store: SqlStore) -> Claimed:
    await store.jobs.enqueue([call()])
    return await claimed(store)


def completing(url: str, job: Claimed, *, lease: timedelta = LEASE) -> JobCompletion:
    def settlement(result: Json | None) -> Settlement:
        verdict = judge(Tried.of(job), Succeeded(result), now(), dice=0.5)
        return Settlement(job=job, verdict=verdict, outcome="succeeded", result=result)

    return open_completion(url, settlement=settlement, encode=encode, lease=lease)


async def state(store: SqlStore, job: Claimed) -> str:
    return str((await store.jobs.get(job.id)).state)


async def take_back(store: SqlStore, job: Claimed) -> None:
    await store.work.end_lease(job.worker)
    taken = await store.upkeep.take_back(
        lambda lost, moment: judge(Tried.of(lost, NEVER), Lost(lost.worker), moment, dice=0.5),
        after=0, margin=timedelta(0), limit=10,
    )  # fmt: skip
    assert taken.lost == 1


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


async def test_a_job_that_was_taken_back_keeps_nothing_of_what_was_written(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    again: list[Claimed] = []

    async def lose_it(_: object) -> None:
        await take_back(store, job)
        worker = await store.work.register(profile(isolates=True), lease=LEASE)
        wish = Wish(worker=worker.id, queue="default", tasks=["work"], limit=1, shelf=4)
        again.extend((await store.work.claim(wish)).jobs)

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
    async with Timeout(10):
        while not store.database.listening:  # type: ignore[attr-defined]
            await sleep(0.01)
    store.database.listen(lambda topic: heard.set() if topic == "ready:default" else None)
    await leave(completing(dsn, job))
    await asyncio.wait_for(heard.wait(), 10)


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


async def test_a_transaction_that_was_ended_in_its_block_completes_nothing(
    store: SqlStore, job: Claimed, dsn: str, leave: Leave
) -> None:
    completion = completing(dsn, job)
    with pytest.raises(WrongState, match="was ended inside its block"):
        await leave(completion, meanwhile=commits)
    assert not completion.completed
    assert await state(store, job) == "running"


async def commits(tx: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    done = tx.execute("commit")
    if asyncio.iscoroutine(done):
        await done


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


VICTIM = """
import sys
from datetime import timedelta
from duly.model.payload import encode
from duly.store.completing import open_completion

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


def test_a_file_has_no_transaction_for_tasks(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidValue, match=r"transaction\(\) needs PostgreSQL, but the database is /"
    ):
        open_completion(
            str(tmp_path / "duly.db"),
            settlement=lambda _: pytest.fail("was asked"),
            encode=encode,
            lease=LEASE,
        )
