"""The behaviour of a store, as a suite that any store can be held against.

    from tests.conformance import check_store

    @asynccontextmanager
    async def make(clock):
        ...  # open an empty store whose time is what the clock says
        yield store

    asyncio.run(check_store(make))

Each check gets a store of its own. ``checks()`` lists them, for test runners that want one test for
each. Some look below the store, at the ``Database`` of a ``SqlStore``; other stores are not asked.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from duly.store.store import Store
from duly.testing.clock import VirtualClock
from tests.conformance import (
    access,
    acknowledging,
    activity,
    alerts,
    applying,
    auditing,
    backfilling,
    backfilling_once,
    callbacks,
    calling_off,
    claiming,
    clock_jumps,
    columns,
    content,
    counting,
    declaring,
    diagnostics,
    editing,
    events,
    fairness,
    finding,
    finding_many,
    finish_and_claim,
    firing,
    fixed_delay,
    flow_events,
    flow_failures,
    flows,
    handing_off,
    idempotence,
    jobs,
    journal,
    keys,
    lateness,
    limit_rules,
    limits,
    maintenance,
    max_runs,
    missed,
    once,
    overlap,
    paging,
    pausing,
    places,
    promotion,
    queue_limits,
    races,
    rates,
    reacting_again,
    reactions,
    removing,
    resources,
    retrying,
    schedules,
    settling,
    storms,
    unfit,
    watching,
    work,
    workers,
    zone_data,
)
from tests.conformance.expect import Broken, NotApplicable
from tests.conformance.registry import REGISTERED, Check
from tests.conformance.world import START, World

__all__ = ["Broken", "Check", "Make", "NotApplicable", "check_store", "checks", "run"]

Make = Callable[[VirtualClock], AbstractAsyncContextManager[Store]]

NOUNS = (
    access, acknowledging, activity, alerts, applying, auditing, backfilling, backfilling_once,
    callbacks, calling_off, claiming, clock_jumps, columns, content, counting, declaring, editing,
    events, fairness, finding, finding_many, firing, fixed_delay, flow_events, flow_failures,
    flows, handing_off, idempotence, jobs, journal, keys, lateness, limit_rules, limits, max_runs,
    missed, once, overlap, paging, pausing, places, promotion, queue_limits, races, rates,
    reacting_again, reactions, removing, resources, retrying, schedules, settling, storms,
    diagnostics, finish_and_claim, unfit, maintenance, watching, work, workers, zone_data,
)  # fmt: skip


def checks() -> list[Check]:
    """Every promise that is checked."""
    return list(REGISTERED)


async def run(check: Check, make: Make) -> None:
    """Try one promise on a new store; raises what is wrong with it."""
    clock = VirtualClock(START)
    async with make(clock) as store:
        await check.body(World(store, clock))


async def check_store(make: Make, *, only: Sequence[Check] | None = None) -> None:
    """Try all of them, and raise one error that names all that failed."""
    failed: list[str] = []
    errors: list[Exception] = []
    for check in checks() if only is None else only:
        try:
            await run(check, make)
        except NotApplicable:
            continue
        except Exception as error:  # noqa: BLE001 - a broken store may raise anything
            failed.append(f"{check}: {type(error).__name__}: {error}")
            errors.append(error)
    if failed:
        listed = "\n".join(failed)
        raise Broken(f"{len(failed)} promises do not hold:\n{listed}") from errors[0]
