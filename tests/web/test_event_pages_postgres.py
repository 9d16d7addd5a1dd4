"""All that ``test_event_pages`` says, on PostgreSQL."""

import pytest

from tests.web.test_event_pages import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
