"""Workers that register at once, over connections of their own."""

import asyncio
from datetime import timedelta

from duly.app import migrate_store
from duly.errors import InvalidValue
from duly.model.worker import Profile
from duly.store.connect import connect
from duly.store.store import Store

LEASE = timedelta(seconds=30)


async def test_of_two_apps_that_start_at_once_one_runs_the_task(pg_dsn: str) -> None:
    await migrate_store(pg_dsn)
    stores = [connect(pg_dsn) for _ in range(6)]
    for store in stores:
        await store.open()
    try:
        for _ in range(10):
            found = await asyncio.gather(
                *(_registered(store, f"app {number % 2}") for number, store in enumerate(stores))
            )
            assert len(set(filter(None, found))) == 1
            for info in await stores[0].work.living():
                await stores[0].work.end_lease(info.id)
    finally:
        for store in stores:
            await store.close()


async def _registered(store: Store, app: str) -> str | None:
    profile = Profile(name=app, queues=("default",), signatures={"send": ""}, app=app)
    try:
        return (await store.work.register(profile, lease=LEASE)).profile.app
    except InvalidValue:
        return None
