"""All that ``test_access`` says, on PostgreSQL."""

import pytest

from tests.app.test_access import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
