"""Each guard is there for a reason: without it, there is an order that breaks something.

A case that holds says little if it cannot fail. Here it is run with one guard taken out of one
statement, and the harness must find the order.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from tests.interleaving.interleave import Explored
from tests.interleaving.stage import Stage
from tests.store.postgres.interleavings import (
    finish_and_claim_cases,
    flow_cases,
    job_cases,
    prune_cases,
    schedule_cases,
)
from tests.store.postgres.interleavings.actors import DIALECTS, Scene

Case = Callable[[Scene], Awaitable[Explored]]


@dataclass(frozen=True)
class Guard:
    """What a statement loses, and who is hurt."""

    breaks: str
    case: Case
    statement: str
    old: str
    new: str = ""
    dialect: str = "locking"


GUARDS = (
    Guard(
        "a new job loses the key that an ended one left behind",
        prune_cases.keys_and_a_call,
        "prune_keys",
        "and not exists (select 1 from duly.job where job.id = job_key.job_id)",
        dialect="optimistic",
    ),
    Guard(
        "a job that was retried is not told to end",
        prune_cases.signals_a_retry_and_a_pruner_that_waits,
        "prune_signals",
        "and not exists (select 1 from duly.job where job.id = signal.job_id)",
        dialect="optimistic",
    ),
    Guard(
        "a job that goes on loses its progress",
        prune_cases.notes_and_a_job_that_goes_on,
        "prune_notes",
        "and at < :before",
    ),
    Guard(
        "a request is not known when it is repeated",
        prune_cases.idempotency_keys_and_a_request,
        "prune_once",
        "and at < :before",
    ),
    Guard(
        "a process that counts in reserved numbers loses its reservation",
        prune_cases.reservations_and_another_block,
        "prune_reservations",
        "and at < :before",
    ),
    Guard(
        "two schedulers that read without a lock write one moment twice",
        schedule_cases.two_schedulers,
        "write_fires",
        "and schedule.revision = decided.revision",
        dialect="optimistic",
    ),
    Guard(
        "a scheduler that read before a pause undoes it",
        schedule_cases.a_pause_and_a_scheduler,
        "write_fires",
        "and schedule.revision = decided.revision",
        dialect="optimistic",
    ),
    Guard(
        "of two nodes that declare at once, one takes the other's plan for an operator's edit",
        schedule_cases.two_nodes_declare,
        "hold_app",
        """insert into duly.app (name, mark, since)
values (:app, '', 0)
    on conflict (name) do update set name = excluded.name
returning mark, since, (select coalesce(:now::bigint, duly.now_us()))""",
        "select mark, since, coalesce(:now::bigint, 0) from duly.app where name = :app",
    ),
    Guard(
        "a job that is made while the one before it ends is never freed",
        schedule_cases.a_scheduler_and_an_end,
        "hold_schedules_briefly",
        "for no key update of schedule",
    ),
    Guard(
        "the same, where the revision is the lock",
        schedule_cases.a_scheduler_and_an_end,
        "hold_schedules_briefly",
        "set revision = revision + 1",
        "set revision = revision",
        dialect="optimistic",
    ),
    Guard(
        "a moment is taken over by a job that has begun, and lost",
        schedule_cases.a_scheduler_and_a_claim,
        "hold_live_jobs",
        "for no key update",
    ),
    Guard(
        "a zombie overwrites its successor",
        job_cases.a_zombie_and_its_successor,
        "hold_jobs",
        "and job.fence = mine.fence",
    ),
    Guard(
        "a zombie ends a job that was taken back and waits",
        job_cases.a_zombie_and_its_successor,
        "hold_jobs",
        "and job.state = 'running' and coalesce(job.waits, '') <> 'steps'",
    ),
    Guard(
        "a zombie ends a job while it is taken back",
        job_cases.a_zombie_and_its_successor,
        "hold_jobs",
        "for update of job",
    ),
    Guard(
        "two workers claim one job",
        job_cases.two_claims,
        "claim",
        "and state || '' = 'ready'",
        dialect="optimistic",
    ),
    Guard(
        "a fence falls",
        job_cases.a_claim_and_one_that_is_given_back,
        "claim",
        "greatest(job.fence + 1,",
        "greatest(0,",
    ),
    Guard(
        "a fence falls in passing",
        finish_and_claim_cases.a_turn_and_one_that_is_given_back,
        "finish_and_claim",
        "greatest(job.fence + 1,",
        "greatest(0,",
    ),
    Guard(
        "two workers take one job in passing",
        finish_and_claim_cases.two_turns,
        "finish_and_claim",
        "and state || '' = 'ready'",
        dialect="optimistic",
    ),
    Guard(
        "a zombie finishes in passing what its successor runs",
        finish_and_claim_cases.a_zombie_in_passing_and_its_successor,
        "finish_and_claim",
        "and fence = (:fences::bigint[])[width_bucket(id, :ids::bigint[])]",
    ),
    Guard(
        "a job waits for ever for one that ended in passing",
        finish_and_claim_cases.an_edit_and_an_end_in_passing,
        "finish_and_claim",
        "and (schedule_id is null or unawaited)",
    ),
    Guard(
        "the same, if an edit does not say that others wait now",
        finish_and_claim_cases.an_edit_and_an_end_in_passing,
        "set_awaited",
        "where schedule_id = :schedule_id",
        "where false and schedule_id = :schedule_id",
    ),
    Guard(
        "a job is cancelled under the hands of its worker",
        job_cases.a_cancellation_and_a_claim,
        "hold_waiting_jobs",
        "and state in ('scheduled', 'blocked', 'ready')",
    ),
    Guard(
        "a signal is left behind by a job that has ended",
        job_cases.a_cancellation_and_an_end,
        "send_signals",
        "for key share of job",
    ),
    Guard(
        "two jobs have one key",
        job_cases.two_calls_under_one_key,
        "take_keys",
        "set job_id = job_key.job_id",
        "set job_id = excluded.job_id",
    ),
    Guard(
        "a job that runs is moved",
        job_cases.a_move_and_a_claim,
        "move_jobs",
        "and job.state in ('scheduled', 'blocked', 'ready')",
    ),
    Guard(
        "a key is dropped that another job has taken",
        job_cases.a_move_and_an_end,
        "drop_keys",
        "and job_key.job_id = mine.id",
    ),
    Guard(
        "a repeated call runs its job twice",
        job_cases.a_repeated_call,
        "ended_already",
        "where id =",
        "where false and id =",
    ),
    Guard(
        "a job is made ready before the moment it was moved to",
        job_cases.a_move_and_a_dispatcher,
        "ready_due_jobs",
        "   and ready_at <= (select coalesce(:now::bigint, duly.now_us()))",
        dialect="optimistic",
    ),
    Guard(
        "a job expires by the deadline that it had before it was moved",
        job_cases.a_move_and_a_late_dispatcher,
        "hold_overdue_jobs",
        "and coalesce(deadline, (select coalesce(:now::bigint, duly.now_us()))) "
        "< (select coalesce(:now::bigint, duly.now_us()))",
    ),
    Guard(
        "a step waits for ever for an event that was committed before it",
        flow_cases.an_event_and_a_step_that_begins_to_wait,
        "compare_steps",
        "where true",
        "where false",
    ),
    Guard(
        "a step waits for ever for an event that was committed after it",
        flow_cases.an_event_and_a_step_that_begins_to_wait,
        "compare_events",
        "where event.id = any(:ids::bigint[])",
        "where false and event.id = any(:ids::bigint[])",
    ),
    Guard(
        "of two steps that end at once nobody starts what waits for both",
        flow_cases.two_ends_before_a_join,
        "hold_flows",
        "for update",
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


async def test_keys_that_are_taken_in_no_order_are_waited_for_in_a_ring(locking: Scene) -> None:
    """Which of two that wait is served first is PostgreSQL's choice: so it is asked again."""
    deadlocks = 0
    with locking.stage.changed("take_keys", ("order by 1, 2", "")):
        for _ in range(3):
            found = await job_cases.two_batches(locking)
            assert not found.broken, found
            deadlocks += found.deadlocks
            if deadlocks:
                break
    assert deadlocks > 0
