"""All that ``test_acknowledged`` says, on PostgreSQL."""

import pytest

from tests.app.test_acknowledged import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
