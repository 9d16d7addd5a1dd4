"""All that ``test_events`` says, on PostgreSQL."""

import pytest

from tests.web.api.test_events import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
