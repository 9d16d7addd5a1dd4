"""All that ``test_commands`` says, on PostgreSQL."""

import pytest

from tests.app.remote.test_commands import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
