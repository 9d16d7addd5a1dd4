"""All that ``test_capacity_pages`` says, on PostgreSQL."""

import pytest

from tests.web.test_capacity_pages import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
