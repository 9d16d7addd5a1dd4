"""What callers have written on their connections: functions that can travel to another process."""

from collections.abc import Callable
from dataclasses import replace

from duly.errors import InvalidValue
from duly.model.access import Actor
from duly.model.fire import StoredFire
from duly.model.schedule import Plan, StoredSchedule
from duly.store.store import Store

WHO = "the guest"
ACTOR = Actor(WHO, "program")


async def cancel(store: Store, key: str) -> bool:
    return await store.jobs.cancel_key("work", key)


async def add(store: Store, plan: Plan) -> StoredSchedule:
    [added] = await store.schedules.add([plan])
    return added


async def edit(store: Store, name: str, change: Callable[[Plan], Plan]) -> StoredSchedule:
    return await store.acting(ACTOR).schedules.edit(name, change)


def every_2h(plan: Plan) -> Plan:
    return replace(plan, rule="every 2h")


def spoiled(plan: Plan) -> Plan:
    raise InvalidValue(f"{plan.name} is spoiled")


async def pause(store: Store, name: str, note: str = "") -> StoredSchedule:
    return await store.acting(ACTOR).schedules.pause(name, note=note)


async def resume(store: Store, name: str) -> StoredSchedule:
    return await store.acting(ACTOR).schedules.resume(name)


async def skip(store: Store, name: str) -> int:
    return len(await store.acting(ACTOR).schedules.skip_next(name, count=2))


async def run(store: Store, name: str) -> StoredFire:
    return await store.acting(ACTOR).schedules.run(name)


async def remove(store: Store, name: str) -> None:
    await store.acting(ACTOR).schedules.remove(name)
