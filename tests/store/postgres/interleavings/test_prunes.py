"""Pruners against those who make old rows matter again: one case for each pruner.

That of limits is among their own cases. Day partitions are dropped as tables, which cannot be put
back for the next order: ``test_day_partitions`` has their cases.
"""

from collections.abc import Awaitable, Callable

import pytest

from duly.store.maintenance import Retention, prunable
from tests.interleaving.interleave import Explored
from tests.store.postgres.interleavings import named_limit_cases, prune_cases
from tests.store.postgres.interleavings.actors import Scene

CASES = {
    "prune_keys": [prune_cases.keys_and_a_call, prune_cases.keys_and_a_retry],
    "old_signals": [
        prune_cases.signals_and_a_retry,
        prune_cases.signals_a_retry_and_a_pruner_that_waits,
    ],
    "prune_notes": [prune_cases.notes_and_a_job_that_goes_on],
    "prune_once": [prune_cases.idempotency_keys_and_a_request],
    "prune_events": [prune_cases.events_and_a_replay],
    "prune_failed": [prune_cases.failed_jobs_and_a_retry],
    "prune_failed_of_tasks": [prune_cases.failed_jobs_of_a_task_and_a_retry],
    "old_flows": [prune_cases.flows_and_a_retry],
    "forget_workers": [prune_cases.workers_and_a_beat],
    "prune_limits": [named_limit_cases.a_claim_and_a_pruner],
    "prune_reservations": [prune_cases.reservations_and_another_block],
}
BY_DAY = {"prune_history", "prune_fires"}
ADDED = {statement for statement, *_ in prune_cases.ADDED}


def test_every_pruner_is_known_here() -> None:
    statements = {name for name, _ in prunable(Retention(), 0)}
    assert statements == {*CASES, *BY_DAY, *ADDED} - {"prune_keys"}


@pytest.mark.parametrize("case", [case for cases in CASES.values() for case in cases])
async def test_what_matters_again_is_not_forgotten(
    scene: Scene, case: Callable[[Scene], Awaitable[Explored]]
) -> None:
    found = await case(scene)
    assert not found.broken, found


async def test_a_stopped_step_that_goes_on_is_there_once(optimistic: Scene) -> None:
    found = await prune_cases.history_and_a_flow_that_goes_on(optimistic)
    assert not found.broken, found


@pytest.mark.parametrize("added", prune_cases.ADDED)
async def test_what_is_written_while_old_rows_go_stays(
    locking: Scene, added: prune_cases.Added
) -> None:
    found = await prune_cases.old_rows_and_a_new_one(locking, added)
    assert not found.broken, found
