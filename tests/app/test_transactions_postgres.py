"""All that ``test_transactions`` says, on PostgreSQL."""

import pytest

from tests.app.test_transactions import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
