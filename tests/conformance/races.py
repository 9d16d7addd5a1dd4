"""Two who decide at once: what was decided on an older revision is not written.

The other's statements are put between those of the first, in one transaction. What other
transactions can do in between is the business of tests with several connections.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from duly.model.schedule import Plan
from duly.policy.decision import Facts, Firing
from duly.policy.firing import decide
from duly.rules import zone_data_version
from duly.store import ledger, schedule_changes
from duly.store.database import Operation
from duly.store.ids import Ids
from duly.store.ledger import FiringResult
from duly.store.transactions import Editor
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan


def _fire(ids: Ids) -> Operation[FiringResult]:
    return ledger.fire(
        decide, limit=10, zone_data=zone_data_version(), ids=ids, trust=lambda _: True
    )


def _interrupted(
    operation: Operation[FiringResult], before: str, other: Callable[[], Operation[object]]
) -> Operation[FiringResult]:
    """Run the other operation just before the first asks a certain statement."""
    try:
        ask = next(operation)
        while True:
            if ask.statement == before:
                yield from other()
            ask = operation.send((yield ask))
    except StopIteration as end:
        result: FiringResult = end.value
        return result


async def _raced(world: World, other: Callable[[Ids], Operation[object]]) -> FiringResult:
    return await world.write(
        lambda ids: _interrupted(_fire(ids), "advance_schedules", lambda: other(ids))
    )


@check
async def of_two_schedulers_that_decide_at_once_one_writes(world: World) -> None:
    await world.add(plan("a"), plan("b"))
    world.wait(MINUTE)
    fired = await _raced(world, _fire)
    equal(fired.schedules, 0, "the slower one has nothing to write")
    equal([len(await world.fires(name)) for name in "ab"], [1, 1])
    equal(len(await world.live()), 2)


@check
async def a_decision_on_a_schedule_that_is_edited_meanwhile_is_not_written(world: World) -> None:
    await world.add(plan(title="old"), plan("other"))
    world.wait(MINUTE)

    def change(old: Plan) -> Plan:
        return replace(old, rule="every 1h", title="new")

    fired = await _raced(
        world, lambda ids: schedule_changes.edit("report", change, Editor("", decide, ids))
    )
    equal(fired.schedules, 1, "only the other one's decision holds")
    equal([f.due_at for f in await world.fires()], [START + MINUTE], "decided by the edit")
    equal(sorted(job.title for job in await world.live()), ["", "old"])
    equal((await world.schedule()).plan.title, "new")


@check
async def a_decision_on_a_schedule_that_is_removed_meanwhile_is_not_written(world: World) -> None:
    await world.add(plan(), plan("other"))
    world.wait(MINUTE)
    fired = await _raced(
        world, lambda ids: schedule_changes.remove("report", Editor("", _nothing_due, ids))
    )
    equal((fired.schedules, len(await world.live())), (1, 1))


@check
async def a_moment_that_is_in_the_ledger_gets_no_second_row_and_no_job(world: World) -> None:
    """Even when the cursor says otherwise: the key of the ledger is the last guard."""
    await world.add(plan(overlap="allow"))

    def forgetful(facts: Facts, now: datetime) -> Firing:
        decided = decide(replace(facts, settled=frozenset()), now)
        return replace(decided, cursor=facts.schedule.cursor, next_at=START + MINUTE)

    world.wait(MINUTE)
    for _ in range(3):
        await world.fire(decide=forgetful)
    equal((len(await world.fires()), len(await world.live())), (1, 1))


@check
async def no_decision_moves_a_cursor_back(world: World) -> None:
    await world.add(plan())

    def confused(facts: Facts, now: datetime) -> Firing:
        return replace(decide(facts, now), cursor=START - HOUR)

    world.wait(MINUTE)
    await world.fire(decide=confused)
    holds((await world.schedule()).cursor >= START, "it stays where it was")


def _nothing_due(facts: Facts, now: datetime) -> Firing:
    return Firing(
        schedule=facts.schedule, entries=[], stopping=[], cursor=now, next_at=None, awaits=False
    )
