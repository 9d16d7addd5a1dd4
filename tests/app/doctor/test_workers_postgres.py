"""What ``test_workers`` says, on PostgreSQL."""

import pytest

from tests.app.doctor.test_workers import (
    test_a_job_that_was_set_aside_is_still_wanted,
    test_a_lease_that_was_ended_is_known_to_those_who_live,
    test_a_queue_that_nobody_listens_to_is_named,
    test_a_schedule_without_any_worker_is_worth_knowing,
    test_a_task_of_a_paused_schedule_is_not_wanted,
    test_a_task_of_dulys_own_only_has_to_be_allowed,
    test_a_task_that_no_worker_knows_is_named,
    test_a_worker_that_was_just_heard_is_well,
    test_a_worker_whose_lease_is_about_to_lapse_is_worth_knowing,
    test_jobs_of_a_dead_worker_that_nobody_takes_back_are_a_problem,
    test_jobs_without_any_worker_are_a_problem,
    test_where_nothing_is_wanted_nobody_is_missing,
)
from tests.conformance.world import World

__all__ = [
    "test_a_job_that_was_set_aside_is_still_wanted",
    "test_a_lease_that_was_ended_is_known_to_those_who_live",
    "test_a_queue_that_nobody_listens_to_is_named",
    "test_a_schedule_without_any_worker_is_worth_knowing",
    "test_a_task_of_a_paused_schedule_is_not_wanted",
    "test_a_task_of_dulys_own_only_has_to_be_allowed",
    "test_a_task_that_no_worker_knows_is_named",
    "test_a_worker_that_was_just_heard_is_well",
    "test_a_worker_whose_lease_is_about_to_lapse_is_worth_knowing",
    "test_jobs_of_a_dead_worker_that_nobody_takes_back_are_a_problem",
    "test_jobs_without_any_worker_are_a_problem",
    "test_where_nothing_is_wanted_nobody_is_missing",
]


@pytest.fixture
def world(postgres_world: World) -> World:
    return postgres_world
