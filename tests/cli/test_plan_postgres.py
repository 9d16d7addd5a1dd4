"""What ``test_plan`` says of planning, applying, drift and pruning, on PostgreSQL."""

import pytest

from tests.cli.test_plan import (
    folder,
    test_a_file_is_planned_applied_and_then_nothing_is_left_to_do,
    test_a_pause_is_written_and_ended_by_the_file,
    test_what_a_person_set_stays_is_told_and_can_be_taken_back,
    test_what_is_exported_is_what_was_applied_and_not_what_code_declares,
    test_what_left_the_file_stays_until_it_is_pruned,
)
from tests.cli.test_schedules import store

__all__ = [
    "folder",
    "store",
    "test_a_file_is_planned_applied_and_then_nothing_is_left_to_do",
    "test_a_pause_is_written_and_ended_by_the_file",
    "test_what_a_person_set_stays_is_told_and_can_be_taken_back",
    "test_what_is_exported_is_what_was_applied_and_not_what_code_declares",
    "test_what_left_the_file_stays_until_it_is_pruned",
]


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
