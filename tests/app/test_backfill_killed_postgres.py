"""All that ``test_backfill_killed`` says, on PostgreSQL."""

import pytest

from tests.app.test_backfill_killed import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url
