"""A file that is put back to an older state, by SQLite's own means, while processes use it."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from duly.model.access import Actor, NewToken
from duly.model.event import Emitted
from duly.store.connect import connect
from duly.store.values import ClaimRequest, JobDone
from tests.factories import call, plan, profile
from tests.store.homes import furnish

LEASE = timedelta(minutes=10)
TASKS = ["work"]


def copied(source: Path, target: Path) -> None:
    """As ``.backup`` and ``.restore`` of the sqlite3 shell do it: page by page, into the file."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


async def test_what_is_acknowledged_after_a_restore_is_there(tmp_path: Path) -> None:
    file, backup = tmp_path / "duly.db", tmp_path / "backup.db"
    await furnish(str(file))
    copied(file, backup)
    old, new = connect(str(file)), connect(str(file))
    for store in (old, new):
        await store.open()
    try:
        await old.jobs.enqueue([call(title="lost with the restore")])
        forgotten = await old.work.register(profile("old", tasks=TASKS), lease=LEASE)
        copied(backup, file)
        titles: dict[int, str] = {}
        for store, name in ((new, "new"), (old, "old")):
            calls = [call(title=f"{name} {n}") for n in range(50)]
            numbers = await store.jobs.enqueue(calls)
            titles |= dict(zip(numbers, [one.title for one in calls], strict=True))
        assert {job.id: job.title for job in await new.jobs.page()} == titles
        said = [
            number
            for store in (new, old)
            for number in await store.events.emit([Emitted(name="said")] * 50)
        ]
        assert sorted(said) == sorted(event.id for event in (await new.events.page()).events)
        for store, name in ((new, "new"), (old, "old")):
            acting = store.acting(Actor(name, "person"))
            for n in range(20):
                secret = sha256(f"{name} {n}".encode()).hexdigest()
                wanted = NewToken(name=f"{name}-{n}", role="viewer", hash=secret)
                await store.access.create_token(wanted)
                await acting.schedules.add([plan(f"{name}-{n}", "every 1h")])
        assert len(await new.access.tokens()) == 40
        assert len(await new.access.audit(limit=100)) == 80
        assert await new.access.verify_audit() is None
        known = await new.work.register(profile("new", tasks=TASKS), lease=LEASE)
        assert known.id != forgotten.id
        assert await old.work.renew(forgotten.id, LEASE) is None
    finally:
        for store in (old, new):
            await store.close()


async def test_a_claim_that_the_file_forgot_cannot_be_finished(tmp_path: Path) -> None:
    file, backup = tmp_path / "duly.db", tmp_path / "backup.db"
    await furnish(str(file))
    store = connect(str(file))
    await store.open()
    try:
        old, new = [
            await store.work.register(profile(name, tasks=TASKS), lease=LEASE)
            for name in ("old", "new")
        ]
        await store.jobs.enqueue([call()])
        copied(file, backup)
        request = ClaimRequest(worker=old.id, queue="default", tasks=TASKS, limit=1)
        [lost] = (await store.work.claim(request)).jobs
        copied(backup, file)
        request = ClaimRequest(worker=new.id, queue="default", tasks=TASKS, limit=1)
        [job] = (await store.work.claim(request)).jobs
        assert job.id == lost.id
        assert (await store.work.finish_and_claim([JobDone(lost.id, lost.fence)])).refused == [
            job.id
        ]
        assert (await store.work.finish_and_claim([JobDone(job.id, job.fence)])).kept == [job.id]
    finally:
        await store.close()
