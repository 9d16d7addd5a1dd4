"""All that ``test_applying`` says, on PostgreSQL."""

import pytest

from tests.app.test_applying import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
