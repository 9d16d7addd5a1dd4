"""Counters count every end once, whoever counts, and outlive the rows they are counted from."""

from datetime import timedelta
from typing import cast

from duly.instants import to_us
from duly.model.outcome import Raised
from duly.model.policies import Missed
from duly.policy.retry import Retry
from duly.store import counters
from duly.store.activity import LENGTHS
from duly.store.counters import Counters, Durations
from duly.store.database import Ask, Operation
from duly.store.maintenance import Retention
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, plan

SECOND = timedelta(seconds=1)
RETRY = Retry(attempts=2, first="1s", jitter=False).as_json()
REFUSED = Raised(error="ConnectionError", message="refused")


async def begin(world: World) -> None:
    """Count from now on."""
    await world.store.maintenance.count()


async def counted(world: World) -> Counters:
    """The counters, after all that has happened is old enough."""
    world.wait(10 * SECOND)
    while await world.store.maintenance.count():
        pass
    return await world.store.maintenance.counters()


def histogram(durations: Durations) -> dict[str, int]:
    """How many durations reached each bound, in seconds; and their sum."""
    bounds = ["0", *(f"{bound / 1_000_000:g}" for bound in LENGTHS)]
    found = {bound: n for bound, n in zip(bounds, durations.counts, strict=True) if n}
    return {**found, "sum": round(durations.total / 1_000_000)}


@check
async def jobs_are_counted_by_task_queue_and_outcome(world: World) -> None:
    await begin(world)
    await world.enqueue(*(call(priority=2) for _ in range(2)))
    for _ in range(2):
        await world.end(await world.begin())
    await world.enqueue(call(retry=RETRY))
    await world.end(await world.begin(), REFUSED)
    world.wait(2 * SECOND)
    await world.dispatch()
    await world.end(await world.begin(), REFUSED)
    await world.store.jobs.cancel(await world.enqueue(call(queue="slow")))
    await world.enqueue(call(start_within=MINUTE, late="skip"))
    world.wait(2 * MINUTE)
    await world.dispatch()
    equal(
        (await counted(world)).jobs,
        {
            "work": {
                "default": {"succeeded": 2, "retried": 1, "failed": 1, "expired": 1},
                "slow": {"cancelled": 1},
            }
        },
    )


@check
async def an_attempt_before_a_cancelled_retry_was_retried(world: World) -> None:
    await begin(world)
    number = await world.enqueue(call(retry=RETRY))
    await world.end(await world.begin(), REFUSED)
    await world.store.jobs.cancel(number)
    equal((await counted(world)).jobs["work"]["default"], {"retried": 1, "cancelled": 1})


@check
async def durations_are_counted_between_bounds(world: World) -> None:
    await begin(world)
    await world.add(plan(rule="every 1m", queue="default", missed=Missed("latest")))
    await world.fire_after(MINUTE)
    world.wait(3 * SECOND)
    job = await world.begin()
    world.wait(MINUTE / 2)
    await world.end(job)
    found = await counted(world)
    equal(histogram(found.run[job.task]), {"20": 1, "sum": 30})
    equal(histogram(found.wait["default"]), {"2": 1, "sum": 3})
    equal(histogram(found.lateness["default"]), {"2": 1, "sum": 3})
    equal(found.fires, {"queued": {"": 1}})


@check
async def counters_outlive_the_history(world: World) -> None:
    await begin(world)
    await world.add(plan(rule="every 1m", queue="default"))
    await world.fire_after(MINUTE)
    await world.end(await world.begin(), REFUSED)
    await world.enqueue(call())
    await world.end(await world.begin())
    before = await counted(world)
    world.wait(timedelta(days=3))
    day = timedelta(days=1)
    await world.store.maintenance.prune(Retention(history=day, failed=day, fires=day), limit=1_000)
    equal(await counted(world), before)
    equal(sum(before.jobs["work"]["default"].values()), 2)


@check
async def a_node_that_is_slower_than_another_one_writes_nothing(world: World) -> None:
    await begin(world)
    await world.enqueue(call())
    await world.end(await world.begin())
    world.wait(10 * SECOND)
    stretch = await world.database.read(lambda: counters.stretch(None))
    holds(stretch is not None, "there is something to count")
    if stretch is not None:
        await world.enqueue(call())
        await world.end(await world.begin())
        await counted(world.another_node())
        await world.database.write(lambda: counters.keep(stretch))
    found = await world.store.maintenance.counters()
    equal(found.jobs["work"]["default"], {"succeeded": 2}, "the slower node takes nothing back")


@check
async def an_end_is_counted_once_it_is_old_enough_to_be_seen_by_all(world: World) -> None:
    await begin(world)
    await world.enqueue(call())
    await world.end(await world.begin())
    world.wait(SECOND)
    equal(await world.store.maintenance.count(), False)
    equal((await world.store.maintenance.counters()).jobs, {})
    equal((await counted(world)).jobs["work"]["default"], {"succeeded": 1})


@check
async def nothing_is_counted_by_a_clock_that_is_not_trusted(world: World) -> None:
    await begin(world)
    await world.enqueue(call())
    await world.end(await world.begin())
    world.wait(timedelta(days=365))
    equal(await world.store.maintenance.count(trust=lambda _: False), False)
    world.wait(timedelta(days=-365))
    equal((await counted(world)).jobs["work"]["default"], {"succeeded": 1})


@check
async def counting_goes_on_after_a_clock_that_was_ahead(world: World) -> None:
    world.wait(HOUR)
    await begin(world)
    world.wait(-HOUR)
    await counted(world)
    await world.enqueue(call())
    await world.end(await world.begin())
    equal((await counted(world)).jobs["work"]["default"], {"succeeded": 1})


@check
async def a_year_without_a_node_is_counted_at_once(world: World) -> None:
    await begin(world)
    world.wait(timedelta(days=365))
    await world.enqueue(call())
    await world.end(await world.begin())
    world.wait(10 * SECOND)
    statements = 0

    def look() -> Operation[counters.CountedStretch | None]:
        nonlocal statements
        operation = counters.stretch(None)
        ask = next(operation)
        while True:
            statements += 1
            try:
                ask = operation.send((yield ask))
            except StopIteration as end:
                return cast("counters.CountedStretch | None", end.value)

    stretch = await world.database.read(look)
    holds(statements < 100, "not a statement for each minute")
    equal(stretch and stretch.counters.jobs["work"]["default"], {"succeeded": 1})


@check
async def names_beyond_a_limit_are_counted_together(world: World) -> None:
    await begin(world)
    many = counters.MOST_NAMES + 20
    names = [f"queue{number}" for number in range(many)]
    await world.enqueue(*(call(queue=name) for name in names))
    for name in names:
        [job] = await world.claim(queue=name)
        await world.end(job)
    found = await counted(world)
    equal((len(found.jobs["work"]), len(found.wait)), (many, counters.MOST_NAMES + 1))
    equal(sum(found.wait[counters.OTHER].counts), 20)


@check
async def a_transaction_that_is_still_writing_holds_the_count_back(world: World) -> None:
    if world.database.dialect.name != "postgres":
        return  # SQLite has one writer
    await begin(world)
    position = Ask("counter_position", {"lag": 0})

    def behind() -> Operation[int]:
        """Write something, then look how far the count may go."""
        yield from counters.keep(
            counters.CountedStretch(to_us(world.now), 0, Counters(), more=False)
        )
        [(_, _, settled)] = yield position
        [(now,)] = yield Ask("now")
        return int(now - settled)

    holds(await world.database.write(behind) > 0, "as long as the transaction has lasted")
    [(_, _, settled)] = await world.database.write_one(position)
    equal(settled, to_us(world.now))
