"""All that ``test_worker`` says, on PostgreSQL."""

import pytest

from tests.cli.test_worker import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
