"""What ``test_jobs`` says of words, retries and cancelling, on PostgreSQL."""

import pytest

from tests.cli.test_jobs import (
    at_work,
    on_utc,
    test_failed_jobs_are_retried_by_their_numbers,
    test_jobs_are_cancelled_by_number_or_all_that_match,
    test_jobs_are_found_by_words_behind_the_noun_and_behind_list,
    test_many_are_counted_before_they_are_retried,
    test_show_tells_everything_about_a_failed_job,
)

__all__ = [
    "at_work",
    "on_utc",
    "test_failed_jobs_are_retried_by_their_numbers",
    "test_jobs_are_cancelled_by_number_or_all_that_match",
    "test_jobs_are_found_by_words_behind_the_noun_and_behind_list",
    "test_many_are_counted_before_they_are_retried",
    "test_show_tells_everything_about_a_failed_job",
]

pytestmark = pytest.mark.usefixtures("shop_is_open")


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
