"""Patients for the doctor: real stores, in which something is as it should be, or is not."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from duly.app import connect, migrate_tables
from duly.clock import now
from duly.doctor import Finding, Patient, examine
from duly.testing.clock import VirtualClock
from tests.conformance.world import MINUTE, World


@asynccontextmanager
async def at_work(url: str) -> AsyncIterator[World]:
    """A store that has its tables, and whose time is the next full minute until it is moved."""
    clock = VirtualClock(now().replace(second=0, microsecond=0) + MINUTE)
    store = connect(url, clock=clock)
    await store.open()
    try:
        await migrate_tables(store)
        yield World(store, clock)
    finally:
        await store.close()


async def checked(world: World, check: Callable[[Patient], Awaitable[Finding]]) -> Finding:
    """One check, on the world's own time."""
    return await check(Patient(url="", store=world.store))


async def found(url: str, name: str) -> Finding:
    """What a whole examination says under one name."""
    [finding] = [one for one in await examine(url) if one.check == name]
    return finding
