"""Those who enter and leave limits, against each other; and what each guard is there for."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from duly.store import limits
from duly.store.database import Ask, Operation, Row
from tests.interleaving.interleave import Explored
from tests.interleaving.stage import Stage
from tests.store.postgres.interleavings import limit_cases, named_limit_cases
from tests.store.postgres.interleavings.actors import DIALECTS, Scene
from tests.store.postgres.interleavings.test_guards import Guard

Case = Callable[[Scene], Awaitable[Explored]]

CASES: tuple[Case, ...] = (
    limit_cases.two_claims,
    limit_cases.two_claims_where_there_is_room,
    limit_cases.two_claims_from_two_queues,
    limit_cases.two_claims_at_a_limit_that_nobody_has_met,
    limit_cases.two_claims_from_a_limited_queue,
    limit_cases.a_claim_in_passing,
    limit_cases.a_turn,
    limit_cases.an_end_and_a_claim,
    limit_cases.an_end_and_a_claim_of_another,
    limit_cases.two_ends,
    limit_cases.a_cancellation_and_an_end,
    limit_cases.a_cancellation_and_a_claim,
    limit_cases.a_move_and_an_end,
    limit_cases.a_zombie_and_its_successor,
    limit_cases.two_limits_in_two_orders,
    named_limit_cases.a_claim_and_a_pruner,
    named_limit_cases.a_rule_and_a_claim,
    named_limit_cases.a_lowered_rule_and_a_claim,
    named_limit_cases.an_opening_and_a_claim,
    named_limit_cases.an_opening_and_an_end,
    named_limit_cases.an_end_while_somebody_holds_who_waits,
    named_limit_cases.a_net_and_a_claim,
)


many = pytest.mark.thorough("explores more orders than all others together")


@pytest.mark.parametrize(
    "case",
    [pytest.param(one, marks=[many] if "two_orders" in one.__name__ else []) for one in CASES],
    ids=lambda case: case.__name__,
)
async def test_limits_hold_in_every_order(scene: Scene, case: Case) -> None:
    found = await case(scene)
    assert not found.broken, found


async def test_limits_that_are_wanted_in_two_orders_are_not_waited_for_in_a_ring(
    locking: Scene,
) -> None:
    found = await limit_cases.two_limits_in_two_orders(locking)
    assert found.deadlocks == 0
    assert found.waits > 0


PLAIN = """and not exists (select 1
                     from duly.queue
                    where name = :queue
                      and (paused or fair or concurrency is not null or rate_count is not null))"""

GUARDS = (
    Guard(
        "two enter a limit of one",
        limit_cases.two_claims_from_two_queues,
        "hold_limits",
        "for update",
    ),
    Guard(
        "whoever parks while the place becomes free waits for ever",
        limit_cases.an_end_and_a_claim,
        "hold_limits",
        "for update",
    ),
    Guard(
        "whoever parks by the old rule waits for ever",
        named_limit_cases.a_rule_and_a_claim,
        "hold_limits",
        "for update",
    ),
    Guard(
        "a net takes the place of somebody who has just taken it",
        named_limit_cases.a_net_and_a_claim,
        "hold_limits",
        "for update",
    ),
    Guard(
        "who leaves lets nobody in",
        limit_cases.an_end_and_a_claim_of_another,
        "free_parked",
        "limit least(place.count, :most)",
        "limit 0",
    ),
    Guard(
        "who leaves keeps the place",
        limit_cases.an_end_and_a_claim,
        "drop_holdings",
        "where job_id",
        "where false and job_id",
    ),
    Guard(
        "nobody looks at a rate when it opens",
        named_limit_cases.an_opening_and_a_claim,
        "set_opening",
        "set opens_at = again.opens_at",
        "set opens_at = null",
    ),
    Guard(
        "nobody looks again where a job was held that waits",
        named_limit_cases.an_end_while_somebody_holds_who_waits,
        "set_opening",
        "set opens_at = again.opens_at",
        "set opens_at = null",
    ),
    Guard(
        "a limit is forgotten while somebody enters",
        named_limit_cases.a_claim_and_a_pruner,
        "prune_limits",
        "for update",
    ),
    Guard(
        "two who choose the same job take its place from each other",
        limit_cases.two_claims_where_there_is_room,
        "candidates",
        "for no key update",
        dialect="optimistic",
    ),
    Guard(
        "two begin in a queue of one",
        limit_cases.two_claims_from_a_limited_queue,
        "hold_queue",
        "for update",
    ),
    Guard(
        "a claim in passing minds no limit of its queue",
        limit_cases.a_claim_in_passing,
        "claim",
        PLAIN,
    ),
    Guard(
        "a turn minds no limit of its queue",
        limit_cases.a_turn,
        "finish_and_claim",
        PLAIN,
    ),
)


@pytest.fixture
async def unguarded(
    request: pytest.FixtureRequest, stages: dict[str, str]
) -> AsyncIterator[tuple[Guard, Scene]]:
    guard: Guard = request.param
    dialect = DIALECTS[guard.dialect]
    async with Stage.opened(stages[guard.dialect], dialect=dialect) as stage:
        with stage.changed(guard.statement, (guard.old, guard.new)):
            yield guard, Scene(stage)


@pytest.mark.parametrize(
    "unguarded", GUARDS, indirect=True, ids=[guard.breaks.replace(" ", "_") for guard in GUARDS]
)
async def test_without_its_guard(unguarded: tuple[Guard, Scene]) -> None:
    guard, scene = unguarded
    found = await guard.case(scene)
    assert found.broken, f"{found.orders} orders, and nothing shows that {guard.breaks}"


async def test_who_counts_before_the_lock_is_given_counts_too_few(
    locking: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement has one view, taken before it waits: so it must begin after the wait."""
    entering = limits.admit

    def admit(*given: object, **named: object) -> Operation[limits.Admitted]:
        return _looking_first(entering(*given, **named))  # type: ignore[arg-type]

    monkeypatch.setattr(limits, "admit", admit)
    found = await limit_cases.two_claims_from_two_queues(locking)
    assert any("2 run at limit" in breach for breach in found.broken), found


def _looking_first(operation: Operation[limits.Admitted]) -> Operation[limits.Admitted]:
    seen: list[Row] = []
    try:
        ask = next(operation)
        while True:
            if ask.statement == "hold_limits":
                wanted = {"names": ask.values["names"], "queue": "", "tasks": []}
                seen = (yield Ask("read_locked_limits", wanted)) or seen
            found = yield ask
            ask = operation.send(seen if ask.statement == "read_locked_limits" else found)
    except StopIteration as end:
        admitted: limits.Admitted = end.value
        return admitted
