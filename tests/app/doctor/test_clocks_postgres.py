"""What ``test_clocks`` says, on PostgreSQL."""

import pytest

from tests.app.doctor.test_clocks import (
    test_a_clock_that_was_set_back_is_known_by_what_was_written,
    test_a_job_that_nobody_makes_ready_is_a_problem,
    test_a_moment_that_nobody_fires_is_a_problem,
    test_a_node_with_newer_zone_data_leaves_a_trace,
    test_a_schedule_that_cannot_be_decided_is_a_problem,
    test_nodes_with_one_release_of_the_zone_data_agree,
)
from tests.conformance.world import World

__all__ = [
    "test_a_clock_that_was_set_back_is_known_by_what_was_written",
    "test_a_job_that_nobody_makes_ready_is_a_problem",
    "test_a_moment_that_nobody_fires_is_a_problem",
    "test_a_node_with_newer_zone_data_leaves_a_trace",
    "test_a_schedule_that_cannot_be_decided_is_a_problem",
    "test_nodes_with_one_release_of_the_zone_data_agree",
]


@pytest.fixture
def world(postgres_world: World) -> World:
    return postgres_world
