"""All that ``test_jobs`` says, on PostgreSQL."""

import pytest

from tests.web.api.test_jobs import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
