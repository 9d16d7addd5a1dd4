"""All that ``test_events_killed`` says, on PostgreSQL."""

import pytest

from tests.app.test_events_killed import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
