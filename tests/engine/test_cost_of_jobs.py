"""What a job costs when it is enqueued and when it ends: statements and wake-ups, not seconds."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from duly.clock import now, sleep
from duly.model.job import Claimed, JobRequest
from duly.model.outcome import Outcome, Raised, Succeeded
from duly.model.policies import Policies
from duly.model.schedule import Plan
from duly.policy.firing import decide
from duly.policy.verdict import Tried, judge
from duly.store.database import Ask, Row
from duly.store.rows import packed_calls
from duly.store.store import SqlStore
from duly.store.values import CLOCK, JOBS, READY, SCHEDULES, ClaimRequest, Settlement
from tests.engine.workshop import LONG_LEASE, memory_store
from tests.factories import call, profile


@pytest.fixture
async def store() -> AsyncIterator[SqlStore]:
    async with memory_store() as store:
        assert isinstance(store, SqlStore)
        yield store


@contextmanager
def statements(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Ask]]:
    """The statements that are a transaction by themselves."""
    asked: list[Ask] = []
    write_one = store.database.write_one

    async def noted(ask: Ask, /) -> list[Row]:
        asked.append(ask)
        return await write_one(ask)

    with monkeypatch.context() as patched:
        patched.setattr(store.database, "write_one", noted)
        yield asked


def bulk(count: int) -> list[JobRequest]:
    pattern = call("send")
    return [pattern.saying(f'{{"user":{number}}}') for number in range(count)]  # type: ignore[arg-type]


async def test_a_bulk_is_one_statement_that_says_once_what_its_jobs_share(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with statements(store, monkeypatch) as asked:
        numbers = await store.jobs.enqueue(bulk(900))
    assert [ask.statement for ask in asked] == ["enqueue"]
    runs = json.loads(str(asked[0].values["batch"]))
    assert sum(len(run["args"]) for run in runs) == 900
    assert len(runs) <= 2  # the numbers may come from two blocks
    assert (await store.jobs.get(numbers[7])).args == '{"user":7}'


def test_only_calls_that_differ_in_their_arguments_alone_are_a_run() -> None:
    first, second, third = bulk(3)
    other = call("send", queue="slow")
    packed = json.loads(packed_calls([first, second, other, third], [10, 11, 12, 13]))
    assert [(run["id"], run["queue"], len(run["args"])) for run in packed] == [
        (10, "default", 2),
        (12, "slow", 1),
        (13, "default", 1),
    ]
    apart = json.loads(packed_calls([first, second], [10, 20]))
    assert [(run["id"], len(run["args"])) for run in apart] == [(10, 1), (20, 1)]


async def test_callers_that_come_while_one_writes_share_the_next_statement(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.jobs.enqueue([call("send")])
    with statements(store, monkeypatch) as asked:
        await asyncio.gather(*(store.jobs.enqueue([call("send")]) for _ in range(32)))
    assert len(asked) == 2


async def fired(store: SqlStore, rule: str, policies: Policies) -> Claimed:
    """The running job of a schedule that was due."""
    await store.schedules.add([Plan(name="report", rule=rule, task="report", policies=policies)])
    await store.schedules.run("report")
    return await claimed(store, "report")


async def claimed(store: SqlStore, task: str) -> Claimed:
    worker = await store.work.register(profile(tasks=[task]), lease=LONG_LEASE)
    request = ClaimRequest(worker=worker.id, queue="default", tasks=[task], limit=1, shelf=CLOCK)
    [job] = (await store.work.claim(request)).jobs
    return job


async def told_by_its_end(store: SqlStore, job: Claimed, outcome: Outcome) -> set[str]:
    heard: set[str] = set()
    store.listen(heard.add)
    verdict = judge(Tried.of(job), outcome, now(), dice=0.5)
    await store.work.settle([Settlement(job=job, verdict=verdict, outcome="ended")])
    return heard


async def test_the_end_of_a_scheduled_job_for_which_nothing_waits_wakes_nobody(
    store: SqlStore,
) -> None:
    job = await fired(store, "every 1h", Policies(overlap="allow"))
    assert await told_by_its_end(store, job, Succeeded(None)) == set()


async def test_the_end_of_a_job_that_a_fixed_delay_awaits_wakes_the_schedulers(
    store: SqlStore,
) -> None:
    await store.schedules.add([Plan(name="report", rule="spaced 1s", task="report")])
    for _ in range(300):
        if (await store.ledger.fire(decide, limit=1, trust=lambda _: True)).jobs:
            break
        await sleep(0.01)
    job = await claimed(store, "report")
    assert SCHEDULES in await told_by_its_end(store, job, Succeeded(None))


async def test_the_end_of_a_job_with_another_behind_it_wakes_the_workers(store: SqlStore) -> None:
    job = await fired(store, "every 1h", Policies(overlap="queue_all"))
    await store.schedules.run("report")
    assert await told_by_its_end(store, job, Succeeded(None)) == {JOBS, READY}


async def test_a_job_that_is_tried_again_later_wakes_the_dispatchers(store: SqlStore) -> None:
    job = await fired(store, "every 1h", Policies(overlap="allow"))
    assert JOBS in await told_by_its_end(
        store, job, Raised("ValueError", retry_after=timedelta(hours=1))
    )
