"""What callers have written on their connections: functions that can travel to another process."""

from collections.abc import Callable
from dataclasses import replace

from duly.errors import InvalidValue
from duly.model.fire import Fire
from duly.model.schedule import Plan, Schedule
from duly.store.protocol import Store

WHO = "the guest"


async def cancel(store: Store, key: str) -> bool:
    return await store.jobs.cancel_key("work", key)


async def add(store: Store, plan: Plan) -> Schedule:
    [added] = await store.schedules.add([plan])
    return added


async def edit(store: Store, name: str, change: Callable[[Plan], Plan]) -> Schedule:
    return await store.schedules.edit(name, change, who=WHO)


def every_2h(plan: Plan) -> Plan:
    return replace(plan, rule="every 2h")


def spoiled(plan: Plan) -> Plan:
    raise InvalidValue(f"{plan.name} is spoiled")


async def pause(store: Store, name: str, note: str = "") -> Schedule:
    return await store.schedules.pause(name, note=note, who=WHO)


async def resume(store: Store, name: str) -> Schedule:
    return await store.schedules.resume(name, who=WHO)


async def skip(store: Store, name: str) -> int:
    return len(await store.schedules.skip_next(name, count=2, who=WHO))


async def run(store: Store, name: str) -> Fire:
    return await store.schedules.run(name, who=WHO)


async def remove(store: Store, name: str) -> None:
    await store.schedules.remove(name, who=WHO)
