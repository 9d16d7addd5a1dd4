"""All that ``test_schedule_pages`` says, on PostgreSQL."""

import pytest

from tests.web.test_schedule_pages import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
