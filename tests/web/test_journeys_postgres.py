"""The same journeys, with PostgreSQL below."""

from collections.abc import Iterator

import pytest

from tests.infrastructure.cluster import Cluster
from tests.infrastructure.postgres import GivenServer, new_database
from tests.web.test_journeys import (  # noqa: F401
    complaints,
    open_page,
    shop,
    test_a_failed_job_is_found_and_given_another_chance,
    test_a_log_is_followed_while_it_is_written,
    test_a_queue_is_paused_with_a_reason_and_resumed,
    test_a_schedule_is_edited_and_the_preview_changes_while_somebody_types,
    test_a_viewer_sees_everything_and_may_press_nothing,
    test_the_demo_is_seen_live,
    test_why_a_run_was_skipped_is_on_the_first_page_and_in_the_history,
)


@pytest.fixture(scope="module")
def store(pg_cluster: Cluster | GivenServer) -> Iterator[str]:
    with new_database(pg_cluster) as dsn:
        yield dsn
