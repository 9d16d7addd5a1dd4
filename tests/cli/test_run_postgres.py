"""What ``test_run`` says of waiting, on PostgreSQL."""

import pytest

from tests.cli.test_run import (
    at_work,
    office_is_open,
    store,
    test_waiting_for_a_job_that_fails_exits_with_one,
    test_waiting_has_an_end_and_the_job_goes_on,
    test_waiting_shows_what_the_job_says_and_then_its_result,
)

__all__ = [
    "at_work",
    "office_is_open",
    "store",
    "test_waiting_for_a_job_that_fails_exits_with_one",
    "test_waiting_has_an_end_and_the_job_goes_on",
    "test_waiting_shows_what_the_job_says_and_then_its_result",
]


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
